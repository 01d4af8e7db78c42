/**
 * A leader whose last flights reach the third zone alone, and there only after it is dead and its epoch is
 * fenced: copies that arrive above the cut.
 */
import { expect } from 'vitest';
import { explainAsOperator } from '../../src/engine/create.ts';
import type { EpochStatus } from '../../src/index.ts';
import { unpad } from '../../src/protocol/keys.ts';
import { FaultProxy, type ProxiedRequest } from '../support/fault-proxy/proxy.ts';
import type { SeenRequest } from '../support/s3/fault-rules.ts';
import { Members } from './members.ts';
import type { ThreeZones } from './three-zones.ts';
import { walkAgain } from './walk-again.ts';

const LEADER = 'left';
const FOLLOWER = 'right';
const TRIES = 4;

/** How the third zone keeps what it is sent until later. */
export interface Late {
  begin(third: FaultProxy, isLate: (request: SeenRequest) => boolean): void;
  /** Whether it is late enough. */
  isDue(epoch: EpochStatus): boolean;
  end(): void;
}

export interface Landed {
  /** That the third zone took at or above the cut after it was published. */
  readonly copies: number;
  /** Those that it still held when the epoch was walked again: a sweep may come before. */
  readonly standing: number;
}

/**
 * Tries until copies landed as `enough` wants them. A slot that is on its way to the third zone alone may
 * be poisoned there, when one of the other two is slow to answer: its copy is refused then.
 */
export async function landLateUntil(
  zones: ThreeZones,
  { bucket, late }: { readonly bucket: string; readonly late: () => Late },
  enough: (landed: Landed) => boolean,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const landed = await landLate(zones, `${bucket}-${tries}`, late());
    console.log(`${bucket}: ${JSON.stringify(landed)}`);
    if (enough(landed)) return;
    expect(tries, 'tries without a copy that landed late').toBeLessThan(TRIES);
  }
}

async function landLate(zones: ThreeZones, bucket: string, late: Late): Promise<Landed> {
  const members = await Members.prepare(zones, bucket);
  const proxies: FaultProxy[] = [];
  for (const endpoint of zones.endpoints) proxies.push(await FaultProxy.start(endpoint));
  const [first, second, third] = proxies as [FaultProxy, FaultProxy, FaultProxy];
  try {
    await members.start(
      LEADER,
      proxies.map(({ endpoint }) => endpoint),
    );
    await members.start(FOLLOWER);
    await members.served();
    const { epoch, checkpoint } = await epochOfLeader(members);
    // All that was begun goes on as usual; from this slot on no zone has anything yet.
    const firstLate = 1 + Math.max(...proxies.flatMap(({ log }) => log.map(slotOf)));
    const isLate = (request: SeenRequest): boolean => slotOf(request) >= firstLate;
    for (const { faults } of [first, second])
      faults.add({ when: isLate, fault: { kind: 'stall' } });
    late.begin(third, isLate);
    await members.until('a flight is on its way to the third zone', () => third.log.some(isLate));
    await members.kill(LEADER);
    await members.until('the connections of the leader are gone', () =>
      third.log.every(({ clientStatus, isAbandoned }) => clientStatus !== undefined || isAbandoned),
    );
    const abandoned = third.log.filter(isLate);
    await members.until('the epoch is fenced', async () =>
      late.isDue(await epochOfLeader(members)),
    );
    const { cut } = await epochOfLeader(members);
    expect(cut).toBeLessThanOrEqual(firstLate);
    late.end();
    await members.until('the third zone has answered', () =>
      abandoned.every(({ serverStatus }) => serverStatus !== undefined),
    );
    await members.served();
    const landed = abandoned.filter(({ serverStatus }) => serverStatus === 200);
    // A late request may have been sent twice, but a slot is created once.
    expect(new Set(landed.map(slotOf)).size).toBe(landed.length);
    const standing = await standingInThird(members, epoch, landed);
    expect(await walkAgain(members.components, { star: LEADER, epoch, checkpoint })).toBe(cut);
    const { takeovers } = await members.judge(`late copies of ${bucket}`);
    expect(takeovers).toBeGreaterThan(0);
    return { copies: landed.length, standing };
  } finally {
    late.end();
    await members.dispose();
    await Promise.all(proxies.map((proxy) => proxy.close()));
  }
}

async function epochOfLeader(members: Members): Promise<EpochStatus> {
  const { epochs } = await members.reading(LEADER, (reader) => reader.status());
  return epochs.at(-1)!;
}

async function standingInThird(
  { components }: Members,
  epoch: number,
  landed: readonly ProxiedRequest[],
): Promise<number> {
  let standing = 0;
  for (const put of landed) {
    const target = { star: LEADER, epoch, slot: slotOf(put) };
    const { cells } = await explainAsOperator({ components }, target);
    if (cells[2]!.holds === 'flight') standing++;
  }
  return standing;
}

/** The slot of the leader whose creation this is; -1 for any other request. */
function slotOf({ method, key }: SeenRequest): number {
  const [, star, , slot = ''] = key.split('/');
  return (method === 'PUT' && star === LEADER ? unpad(slot) : undefined) ?? -1;
}
