import { describe, expect, it } from 'vitest';
import { createActor, SimulatedClock, type Actor } from 'xstate';
import { SparseChain, costOf } from '../../../bench/_sparse-chain.ts';
import {
  fenceMachine,
  type FenceContext,
  type FenceEvent,
} from '../../../machines/fence.machine.ts';
import type { FenceWave } from '../../../src/protocol/fence.ts';
import type { CutClaim } from '../../../src/protocol/publication.ts';
import type { EpochRecord } from '../../../src/protocol/records.ts';
import { FLIGHT, POISON } from '../../../src/protocol/slot.ts';

const OPEN: EpochRecord = {
  star: 'star-a',
  epoch: 7,
  class: 'express',
  set: '0a'.repeat(16),
  buckets: 3,
  copyQuorum: 2,
  window: 4,
  incarnation: '11'.repeat(16),
  nonce: '5a'.repeat(16),
  state: 'open',
  checkpoint: 0,
  rewritten: 0,
  trimmed: 0,
  swept: 0,
  tailSwept: false,
  attempt: '00'.repeat(8),
};

/** A machine whose effects are only noted, on a clock that the test moves. */
class Bench {
  readonly clock = new SimulatedClock();
  readonly effects: string[] = [];
  readonly states: string[] = [];
  readonly actor: Actor<typeof fenceMachine>;
  wave: FenceWave | undefined;
  claim: CutClaim | undefined;
  failed: unknown;

  constructor(own = false) {
    this.actor = createActor(
      fenceMachine.provide({
        actions: {
          readRecord: () => {
            this.effects.push('readRecord');
          },
          runWave: (_, { wave }) => {
            this.wave = wave;
            this.effects.push(`runWave ${wave.kind}`);
          },
          publishCut: (_, { claim }) => {
            this.claim = claim;
            this.effects.push('publishCut');
          },
        },
      }),
      { input: { star: 'star-a', epoch: 7, own, tailHint: null }, clock: this.clock },
    );
    this.actor.subscribe({
      next: ({ value }) => {
        this.states.push(typeof value === 'string' ? value : `undecided.${value.undecided}`);
      },
      error: (error) => {
        this.failed = error;
      },
    });
    this.actor.start();
  }

  get context(): FenceContext {
    return this.actor.getSnapshot().context;
  }

  send(event: FenceEvent): void {
    this.actor.send(event);
  }

  readRecord(record: Partial<EpochRecord> = {}): void {
    this.send({ type: 'record.read', record: { ...OPEN, ...record }, version: 1 });
  }

  /** Answers waves from the chain until the machine waits for something else. */
  walk(chain: SparseChain, waves = 100): void {
    for (let count = 0; count < waves; count++) {
      const value = this.actor.getSnapshot().value;
      if (value === 'revalidating') this.readRecord();
      else if (typeof value === 'string' && WAVE_STATES.has(value)) this.answer(chain);
      else return;
    }
  }

  answer(chain: SparseChain): void {
    const wave = this.wave!;
    this.send({
      type: 'wave.answered',
      answers: chain.answer(wave),
      cost: { ...costOf(wave), repairs: 0 },
      atMillis: 1_000,
    });
  }
}

const WAVE_STATES = new Set(['probing', 'observing', 'repairing', 'poisoning', 'barring']);

const chainOf = (tail: number): SparseChain =>
  new SparseChain({ buckets: 3, copies: 2, window: 4, tail });

describe('fence machine', () => {
  it('reads the record, probes, walks, poisons, publishes', () => {
    const bench = new Bench();
    expect(bench.actor.getSnapshot().value).toBe('reading');
    bench.readRecord();
    bench.walk(chainOf(3));
    expect(bench.actor.getSnapshot().value).toBe('publishing');
    expect(bench.claim).toEqual({ cut: 3, released: 0, poisoned: [0, 1] });
    bench.send({
      type: 'cut.published',
      record: { ...OPEN, state: 'fenced', cut: 3 },
      version: 2,
    });
    expect(bench.actor.getSnapshot()).toMatchObject({ status: 'done', value: 'fenced' });
    expect(bench.context).toMatchObject({ alreadyFenced: false, record: { cut: 3 }, version: 2 });
    expect(bench.context.cost.rounds).toBe(6);
    expect([...new Set(bench.states)]).toEqual([
      'reading',
      'probing',
      'observing',
      'revalidating',
      'poisoning',
      'publishing',
      'fenced',
    ]);
  });

  it('ends at once when the record has its cut', () => {
    const bench = new Bench();
    bench.readRecord({ state: 'settled', cut: 9, checkpoint: 9 });
    expect(bench.actor.getSnapshot().value).toBe('fenced');
    expect(bench.context).toMatchObject({ alreadyFenced: true, record: { cut: 9 } });
    expect(bench.effects).toEqual(['readRecord']);
  });

  it('repairs in a state of its own', () => {
    const bench = new Bench();
    const chain = chainOf(1);
    chain.setCell(1, 2, FLIGHT);
    bench.readRecord();
    bench.walk(chain);
    expect(bench.states).toContain('repairing');
    expect(bench.claim).toEqual({ cut: 2, released: 0, poisoned: [0, 1] });
  });

  it('sets barriers in a state of its own, and none once an owner joined', () => {
    const chased = new Bench();
    const chain = chainOf(50);
    chain.incumbentSteps = 1;
    chased.readRecord();
    chased.walk(chain);
    expect(chased.states).toContain('barring');
    const owned = new Bench();
    const same = chainOf(50);
    same.incumbentSteps = 1;
    owned.readRecord();
    owned.send({ type: 'owner.joined' });
    owned.walk(same, 30);
    expect(owned.states).not.toContain('barring');
    expect(owned.context).toMatchObject({ own: true, walk: { own: true } });
  });

  it('takes over the cut that it finds while it re-reads the record', () => {
    const bench = new Bench();
    bench.readRecord();
    bench.walk(chainOf(0), 1);
    expect(bench.actor.getSnapshot().value).toBe('revalidating');
    bench.readRecord({ state: 'fenced', cut: 0 });
    expect(bench.actor.getSnapshot().value).toBe('fenced');
    expect(bench.context.alreadyFenced).toBe(true);
  });

  it('pauses, re-reads and looks again while it is undecided, with growing pauses', () => {
    const bench = new Bench();
    const chain = chainOf(0);
    chain.setCell(0, 0, FLIGHT);
    chain.setCell(0, 1, POISON);
    // The third bucket holds damage until somebody removes it.
    chain.setCell(0, 2, 4);
    bench.readRecord();
    bench.walk(chain);
    expect(bench.actor.getSnapshot().value).toEqual({ undecided: 'pausing' });
    expect(bench.context.undecidedSinceMillis).toBe(1_000);
    for (const pause of [50, 100, 200, 400]) {
      bench.clock.increment(pause - 1);
      expect(bench.actor.getSnapshot().value).toEqual({ undecided: 'pausing' });
      bench.clock.increment(1);
      expect(bench.actor.getSnapshot().value).toEqual({ undecided: 'rereading' });
      bench.readRecord();
      expect(bench.actor.getSnapshot().value).toEqual({ undecided: 'looking' });
      bench.answer(chain);
    }
    expect(bench.context.undecidedSinceMillis).toBe(1_000);
    chain.setCell(0, 2, 1);
    bench.clock.increment(800);
    bench.readRecord();
    bench.answer(chain);
    bench.walk(chain);
    expect(bench.actor.getSnapshot().value).toBe('publishing');
    expect(bench.context).toMatchObject({ undecidedSinceMillis: null, pauses: 0 });
  });

  it('leaves an undecided slot that the checkpoint has passed', () => {
    const bench = new Bench();
    const chain = chainOf(0);
    chain.setCell(0, 0, FLIGHT);
    chain.setCell(0, 1, POISON);
    chain.setCell(0, 2, 4);
    bench.readRecord();
    bench.walk(chain);
    bench.clock.increment(50);
    bench.readRecord({ checkpoint: 3 });
    expect(bench.context.walk).toMatchObject({ slot: 3 });
    bench.walk(chain);
    expect(bench.claim?.cut).toBe(3);
  });

  it('walks again from the new checkpoint when the walk was outdated', () => {
    const bench = new Bench();
    bench.readRecord();
    bench.walk(chainOf(2));
    bench.send({
      type: 'walk.outdated',
      record: { ...OPEN, checkpoint: 9, rewritten: 9, trimmed: 9 },
      version: 4,
    });
    expect(bench.actor.getSnapshot().value).toBe('probing');
    expect(bench.context).toMatchObject({ restarts: 1, version: 4, walk: { slot: 9 } });
    bench.walk(chainOf(12));
    expect(bench.claim?.cut).toBe(12);
  });

  it('adopts a cut that another fencer recorded', () => {
    const bench = new Bench();
    bench.readRecord();
    bench.walk(chainOf(2));
    bench.send({ type: 'cut.adopted', record: { ...OPEN, state: 'fenced', cut: 2 }, version: 5 });
    expect(bench.context).toMatchObject({ alreadyFenced: true, record: { cut: 2 } });
  });

  it('fails in any state with what the effect reported', () => {
    const reach: ((bench: Bench) => void)[] = [
      () => undefined,
      (bench) => {
        bench.readRecord();
      },
      (bench) => {
        bench.readRecord();
        bench.walk(chainOf(2));
      },
    ];
    for (const prepare of reach) {
      const bench = new Bench();
      prepare(bench);
      bench.send({ type: 'effect.failed', code: 'METASTORE_CORRUPT', message: 'x' });
      expect(bench.actor.getSnapshot()).toMatchObject({ status: 'done', value: 'failed' });
      expect(bench.context.failure).toEqual({ code: 'METASTORE_CORRUPT', message: 'x' });
    }
  });

  it('refuses an event that no state waits for', () => {
    const bench = new Bench();
    bench.send({ type: 'cut.adopted', record: OPEN, version: 1 });
    expect(bench.failed).toBeInstanceOf(Error);
    expect(bench.actor.getSnapshot().status).toBe('error');
  });

  it('keeps plain data in its context: it survives JSON at every step', () => {
    const bench = new Bench();
    const chain = chainOf(40);
    chain.setCell(40, 0, FLIGHT);
    bench.readRecord();
    for (let steps = 0; steps < 30; steps++) {
      const { context } = bench;
      expect(JSON.parse(JSON.stringify(context))).toEqual(context);
      bench.walk(chain, 1);
    }
    expect(bench.actor.getSnapshot().value).toBe('publishing');
  });

  it('goes on from a stored snapshot', () => {
    const bench = new Bench();
    bench.readRecord();
    bench.walk(chainOf(5), 3);
    const stored = JSON.parse(JSON.stringify(bench.actor.getPersistedSnapshot())) as never;
    const effects: string[] = [];
    const again = createActor(
      fenceMachine.provide({
        actions: {
          publishCut: () => {
            effects.push('publishCut');
          },
        },
      }),
      { snapshot: stored, input: { star: 'star-a', epoch: 7, own: false, tailHint: null } },
    );
    again.start();
    const { wave } = again.getSnapshot().context.walk!;
    expect(wave).toEqual(bench.wave);
  });
});
