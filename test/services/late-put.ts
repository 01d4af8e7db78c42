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
  begin(third: FaultProxy): void;
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
    late.begin(third);
    for (const proxy of [first, second]) proxy.partition();
    const onlyThird = (): ProxiedRequest[] =>
      third.log.filter(
        (put) =>
          isOfLeader(put) &&
          put.serverStatus === undefined &&
          [first, second].every((proxy) => !wasSent(proxy, put.key)),
      );
    await members.until(
      'a flight is on its way to the third zone alone',
      () => onlyThird().length > 0,
    );
    await members.kill(LEADER);
    // What the killed process had begun ends with its connections; only then may the others pass again.
    await members.until('the connections of the leader are gone', () =>
      proxies.every(({ log }) => log.every((entry) => isOver(entry))),
    );
    for (const proxy of [first, second]) proxy.heal();
    const abandoned = onlyThird();
    await members.until('the epoch is fenced', async () =>
      late.isDue(await epochOfLeader(members)),
    );
    const { cut } = await epochOfLeader(members);
    const above = abandoned.filter((put) => slotOf(put)! >= cut!);
    late.end();
    await members.until('the third zone has answered', () =>
      abandoned.every(({ serverStatus }) => serverStatus !== undefined),
    );
    await members.served();
    const landed = above.filter(({ serverStatus }) => serverStatus === 200);
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
    const target = { star: LEADER, epoch, slot: slotOf(put)! };
    const { cells } = await explainAsOperator({ components }, target);
    if (cells[2]!.holds === 'flight') standing++;
  }
  return standing;
}

export function isOfLeader(request: SeenRequest): boolean {
  return slotOf(request) !== undefined;
}

/** The slot of the leader whose creation this is. */
function slotOf({ method, key }: SeenRequest): number | undefined {
  const [, star, , slot] = key.split('/');
  return method === 'PUT' && star === LEADER ? unpad(slot ?? '') : undefined;
}

function wasSent(proxy: FaultProxy, key: string): boolean {
  return proxy.log.some((entry) => entry.key === key && entry.method === 'PUT' && entry.sent);
}

function isOver({ clientStatus, isAbandoned }: ProxiedRequest): boolean {
  return clientStatus !== undefined || isAbandoned;
}
