import { describe, expect, it } from 'vitest';
import { createActor, type SnapshotFrom } from 'xstate';
import { starMachine, type StarEvent } from '../../../machines/star.machine.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { xstateClock } from '../../../actors/epoch.actor.ts';

interface Hosted {
  readonly clock: ManualClock;
  readonly effects: string[];
  send(...events: StarEvent[]): void;
  value(): SnapshotFrom<typeof starMachine>['value'];
  context(): SnapshotFrom<typeof starMachine>['context'];
}

const EFFECTS = [
  ...(['registerLease', 'registerAgain', 'mintEpoch', 'settlePredecessors', 'rollEpoch'] as const),
  'endLease',
  ...(['loseStreams', 'yieldStreams', 'giveUpLease', 'finishStreams', 'closeEpoch'] as const),
];

/** A star whose effects are only noted. */
function host(...events: StarEvent[]): Hosted {
  const clock = new ManualClock();
  const effects: string[] = [];
  const actions = Object.fromEntries(EFFECTS.map((name) => [name, () => effects.push(name)]));
  const actor = createActor(starMachine.provide({ actions }), {
    input: { star: 'a' },
    clock: xstateClock(clock),
  });
  actor.start();
  const send = (...all: StarEvent[]): void => {
    for (const event of all) actor.send(event);
  };
  send(...events);
  return {
    clock,
    effects,
    send,
    value: () => actor.getSnapshot().value,
    context: () => actor.getSnapshot().context,
  };
}

const REGISTERED: StarEvent = { type: 'lease.registered', incarnation: 'i' };
const SERVING: readonly StarEvent[] = [
  REGISTERED,
  { type: 'epoch.minted', epoch: 0 },
  { type: 'predecessors.settled' },
];
const failed = (code: string): StarEvent => ({ type: 'registration.failed', code });

describe('the chart of a star', () => {
  it('registers before it mints (M0)', () => {
    const star = host();
    expect(star.effects).toEqual(['registerLease']);
    star.send(REGISTERED);
    expect(star.effects).toEqual(['registerLease', 'mintEpoch']);
  });

  it('goes on with its first mint under the next incarnation', async () => {
    const star = host(REGISTERED, { type: 'lease.lost' });
    expect(star.value()).toEqual({ minting: { halted: 'registering' } });
    star.send(failed('METASTORE_UNAVAILABLE'));
    expect(star.value()).toEqual({ minting: { halted: 'waiting' } });
    await star.clock.advance(200);
    star.send({ type: 'lease.registered', incarnation: 'j' });
    expect(star.value()).toEqual({ minting: 'registered' });
    star.send({ type: 'epoch.minted', epoch: 1 });
    expect(star.context()).toMatchObject({ incarnation: 'j', epoch: 1, attempts: 0 });
    expect(star.effects.filter((name) => name === 'mintEpoch')).toHaveLength(1);
  });

  it('does not begin when another process has its name by then', () => {
    const star = host(REGISTERED, { type: 'lease.lost' }, failed('STAR_IN_USE'));
    expect(star.value()).toBe('failed');
    expect(star.effects.at(-1)).toBe('endLease');
  });

  it('halts without its lease, inside the roll that waits for the next one', () => {
    const star = host(...SERVING, { type: 'lease.lost' });
    expect(star.value()).toEqual({ rolling: { halted: 'registering' } });
    expect(star.effects.slice(-2)).toEqual(['rollEpoch', 'registerAgain']);
    star.send({ type: 'lease.registered', incarnation: 'j' });
    expect(star.value()).toEqual({ rolling: 'registered' });
    star.send({ type: 'roll.done', epoch: 1 });
    expect(star.context()).toMatchObject({ incarnation: 'j', epoch: 1, attempts: 0 });
    // One roll for one loss.
    expect(star.effects.filter((name) => name === 'rollEpoch')).toHaveLength(1);
  });

  it('halts in the middle of a roll, too, without beginning another', () => {
    const star = host(...SERVING, { type: 'epoch.lost' }, { type: 'lease.lost' });
    expect(star.value()).toEqual({ rolling: { halted: 'registering' } });
    star.send(REGISTERED, { type: 'lease.lost' }, REGISTERED, { type: 'roll.done', epoch: 2 });
    expect(star.value()).toEqual({ serving: 'recovering' });
    expect(star.effects.filter((name) => name === 'rollEpoch')).toHaveLength(1);
  });

  it('registers again and again, with back-off up to five seconds', async () => {
    const star = host(...SERVING, { type: 'lease.lost' });
    for (let attempt = 0; attempt < 12; attempt++) {
      star.send(failed('METASTORE_UNAVAILABLE'));
      expect(star.value()).toEqual({ rolling: { halted: 'waiting' } });
      await star.clock.advance(5_000);
      expect(star.value()).toEqual({ rolling: { halted: 'registering' } });
    }
    expect(star.context()).toMatchObject({ attempts: 12, failure: 'METASTORE_UNAVAILABLE' });
    expect(star.effects).not.toContain('yieldStreams');
    star.send(REGISTERED);
    expect(star.context()).toMatchObject({ attempts: 0, failure: undefined });
  });

  it('yields its streams to a process that holds its name, and goes on asking', async () => {
    const star = host(...SERVING, { type: 'lease.lost' }, failed('STAR_IN_USE'));
    expect(star.effects.at(-1)).toBe('yieldStreams');
    await star.clock.advance(5_000);
    expect(star.value()).toEqual({ rolling: { halted: 'registering' } });
    expect(star.effects).not.toContain('loseStreams');
  });

  it('ends while it halts: what is left is lost', () => {
    const star = host(...SERVING, { type: 'lease.lost' }, { type: 'drain.requested' });
    expect(star.value()).toBe('closing');
    expect(star.effects.slice(-2)).toEqual(['loseStreams', 'closeEpoch']);
  });

  it('stops for good when a roll meets what no repetition helps', () => {
    const star = host(...SERVING, { type: 'epoch.lost' });
    star.send({ type: 'effect.failed', code: 'BUCKET_IDENTITY' });
    expect(star.value()).toBe('stopped');
    expect(star.effects.slice(-2)).toEqual(['loseStreams', 'giveUpLease']);
  });
});
