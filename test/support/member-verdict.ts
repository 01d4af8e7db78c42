/** What several processes acknowledged and answered, held against what a reader finds in the end. */
import { expect } from 'vitest';
import { isClean } from '../../src/cli/load/verifier.ts';
import type { Ledger } from '../../src/cli/takeover/ledger.ts';
import type { Member } from '../../src/cli/takeover/member-process.ts';
import type { ReadOnlyEngine } from '../../src/index.ts';

/** Prints the figures, and fails where a record is lost, reused, doubled or out of order, or a tail stale. */
export async function expectClean<T extends object>(
  name: string,
  ledger: Ledger,
  reader: ReadOnlyEngine,
  more: T,
): Promise<T & { readonly tailChecks: number }> {
  const verdict = await ledger.readBack(reader);
  const outcome = {
    ...more,
    acknowledged: ledger.records,
    ...verdict,
    reused: ledger.reused(),
    tailChecks: ledger.tailChecks,
    staleTails: ledger.staleTails(),
    producerErrors: ledger.producerErrors,
    retries: ledger.retries,
    longestStallMillis: Math.round(ledger.longestStallMillis),
  };
  console.log(`${name}: ${JSON.stringify(outcome)}`);
  expect(isClean(verdict), JSON.stringify(outcome)).toBe(true);
  expect(outcome).toMatchObject({ lost: 0, reused: 0, staleTails: 0, producerErrors: 0 });
  expect(outcome.acknowledged).toBeGreaterThan(0);
  return outcome;
}

/** SIGKILL; before it, the process had nothing to complain of. */
export async function killMember(member: Member): Promise<void> {
  member.process.kill();
  const { signal, stderr } = await member.process.ended;
  const { failure } = member;
  expect({ signal, stderr, failure }).toEqual({
    signal: 'SIGKILL',
    stderr: '',
    failure: undefined,
  });
}
