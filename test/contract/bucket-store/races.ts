/** What racing creations of one key were told, held against what the bucket has. */
import { expect } from 'vitest';
import type { CreateOutcome } from '../../../src/ports/bucket-store.ts';

/** @param stored - what is under the key after all of them have ended. */
export function expectTrueOutcomes(
  bodies: readonly Uint8Array[],
  outcomes: readonly CreateOutcome[],
  stored: Buffer | undefined,
): void {
  const winners = bodies.filter((_, index) => outcomes[index]!.kind === 'created');
  expect(winners.length).toBeLessThanOrEqual(1);
  for (const winner of winners) expect(Buffer.compare(winner, stored!)).toBe(0);
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome.kind === 'exists') {
      expect(Buffer.compare(outcome.head, stored!.subarray(0, 256))).toBe(0);
      expect(outcome.sizeBytes).toBe(stored!.byteLength);
    }
    if (outcome.kind === 'refused') expect(stored?.equals(bodies[index]!)).not.toBe(true);
  }
}
