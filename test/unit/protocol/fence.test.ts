import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { costOf, SparseChain, walk, type WalkCost } from '../../../bench/_sparse-chain.ts';
import { Prng } from '../../../src/lib/prng.ts';
import {
  beginFence,
  revalidateFence,
  stepFence,
  type FenceAnswers,
  type FenceStart,
  type FenceState,
  type FenceWave,
  type PutAnswer,
} from '../../../src/protocol/fence.ts';
import {
  CORRUPT,
  EMPTY,
  FLIGHT,
  POISON,
  UNKNOWN,
  type CellCode,
} from '../../../src/protocol/slot.ts';

const P = 16;

function chainOf(tail: number, options: { garbage?: number; steps?: number } = {}): SparseChain {
  const chain = new SparseChain({ buckets: 3, copies: 2, window: P, tail });
  for (let each = 1; each <= (options.garbage ?? 0); each++) plant(chain, tail + each, 'fff');
  chain.incumbentSteps = options.steps ?? 0;
  return chain;
}

const LETTERS: Record<string, CellCode> = { '.': EMPTY, f: FLIGHT, p: POISON, x: CORRUPT };

function plant(chain: SparseChain, slot: number, cells: string): void {
  cells.split('').forEach((letter, bucket) => {
    chain.setCell(slot, bucket, LETTERS[letter]!);
  });
}

function cellsAt(chain: SparseChain, slot: number): string {
  return [0, 1, 2].map((bucket) => '?.fpx'.charAt(chain.cell(slot, bucket))).join('');
}

const TAILS = [0, 1, 5, P + 1, 100, 4_095, 4_096, 10_000, 777_777, 999_999, 1_000_000, 2 ** 20];

describe('cost of a walk at K=3 W=2 (DESIGN section 8)', () => {
  for (const garbage of [0, 1, P - 1]) {
    for (const tail of TAILS) {
      it(`finds ${tail} behind ${garbage} flights above the hole`, () => {
        const plain = walk(chainOf(tail, { garbage }));
        expect(plain.cut).toBe(tail);
        expect(plain.rounds).toBeLessThanOrEqual(10);
        expect(plain.gets).toBeLessThanOrEqual(1_000);
        expect(plain.puts).toBe(2);
        const hinted = walk(chainOf(tail, { garbage }), { tailHint: tail });
        expect(hinted.cut).toBe(tail);
        expect(hinted.rounds).toBeLessThanOrEqual(5);
        const lagging = walk(chainOf(tail, { garbage }), {
          checkpoint: Math.max(0, tail - 4_096),
        });
        expect(lagging.cut).toBe(tail);
        expect(lagging.rounds).toBeLessThanOrEqual(8);
      });
    }
  }

  it('pays three waves for a repair, however many slots need one', () => {
    const base = walk(chainOf(1_000_000)).rounds;
    const one = chainOf(1_000_000);
    plant(one, 1_000_000, '..f');
    expect(walk(one)).toMatchObject({ cut: 1_000_001, rounds: base + 3 });
    const many = chainOf(1_000_000);
    for (let each = 0; each < P; each++)
      plant(many, 1_000_000 + each, each % 2 === 0 ? 'f..' : '..f');
    expect(walk(many)).toMatchObject({ cut: 1_000_000 + P, rounds: base + 3 });
  });

  it('survives hints that are wrong in either direction', () => {
    for (const tailHint of [0, 3, 900, 1_003, 1_100, 9_999_999]) {
      const cost = walk(chainOf(1_000), { tailHint });
      expect(cost.cut).toBe(1_000);
      expect(cost.rounds).toBeLessThanOrEqual(10);
      expect(cost.gets).toBeLessThanOrEqual(1_000);
    }
  });

  for (const steps of [1, 4, 16]) {
    it(`ends in 12 rounds against an incumbent that completes ${steps} slots an answer`, () => {
      for (const tail of [0, 7, 100, 4_096, 10_000, 123_456, 1_000_000]) {
        for (const checkpoint of new Set([0, Math.max(0, tail - 4_096)])) {
          const cost = walk(chainOf(tail, { steps }), { checkpoint });
          expect(cost.rounds, `tail ${tail} checkpoint ${checkpoint}`).toBeLessThanOrEqual(12);
          expect(cost.cut).toBeGreaterThanOrEqual(tail);
        }
      }
    });
  }
});

describe('what a walk does', () => {
  const kindsOf = (chain: SparseChain, start: Partial<FenceStart> = {}): string[] => {
    const kinds: string[] = [];
    walk(chain, start, undefined, ({ kind }) => kinds.push(kind));
    return kinds;
  };

  it('poisons one bucket at a time, in order, and looks again after each', () => {
    const chain = chainOf(3);
    expect(kindsOf(chain)).toEqual([
      'probe',
      'observe',
      'revalidate',
      'poison',
      'observe',
      'poison',
      'observe',
    ]);
    expect(cellsAt(chain, 3)).toBe('pp.');
  });

  it('completes a slot with one copy, and does not poison it', () => {
    const chain = chainOf(3);
    plant(chain, 3, '.f.');
    expect(walk(chain).cut).toBe(4);
    expect(cellsAt(chain, 3)).toBe('fff');
  });

  it('finishes what a dead fencer began', () => {
    const chain = chainOf(3);
    plant(chain, 3, 'p..');
    expect(walk(chain)).toMatchObject({ cut: 3, puts: 1 });
    const done = chainOf(3);
    plant(done, 3, 'pp.');
    expect(walk(done)).toMatchObject({ cut: 3, puts: 0 });
  });

  it('takes poison for no evidence of lower slots', () => {
    const chain = chainOf(3);
    plant(chain, 40, 'ppp');
    expect(walk(chain).cut).toBe(3);
  });

  it('completes a slot with poison in the minority', () => {
    const chain = chainOf(3);
    plant(chain, 3, 'pf.');
    expect(walk(chain).cut).toBe(4);
    expect(cellsAt(chain, 3)).toBe('pff');
  });

  it('never sets a barrier in a fence of its own epoch', () => {
    const chain = chainOf(100, { steps: 1 });
    const kinds: string[] = [];
    let state = beginFence({
      quorum: { buckets: 3, copies: 2 },
      window: P,
      checkpoint: 0,
      own: true,
    });
    for (let wave = 0; wave < 60 && state.wave.kind !== 'cut'; wave++) {
      if (wave === 20) chain.incumbentSteps = 0;
      kinds.push(state.wave.kind);
      state =
        state.wave.kind === 'revalidate'
          ? revalidateFence(state, 0)
          : stepFence(state, chain.answer(state.wave));
    }
    expect(kinds).not.toContain('barrier');
    expect(state.wave).toMatchObject({ kind: 'cut', slot: chain.tail });
  });

  it('doubles the distance of a barrier that came too late', () => {
    const chain = chainOf(100, { steps: 3 });
    const distances: number[] = [];
    let tooLate = 2;
    walk(chain, {}, undefined, (wave, { low }) => {
      if (wave.kind !== 'barrier') return;
      const { slot } = wave.poisons[0]!;
      distances.push(slot - low);
      // The incumbent is there first, twice.
      if (tooLate-- > 0) chain.tail = Math.max(chain.tail, slot + 1);
    });
    expect(distances.length).toBeGreaterThanOrEqual(3);
    expect(distances[1]).toBeGreaterThanOrEqual(2 * distances[0]!);
    expect(distances[2]).toBeGreaterThanOrEqual(2 * distances[1]!);
  });

  it('re-reads the record before the first poison at a slot, and moves on when it was trimmed', () => {
    const chain = chainOf(3);
    let state = begin({ checkpoint: 0 });
    while (state.wave.kind !== 'revalidate') state = stepFence(state, chain.answer(state.wave));
    const trimmed = revalidateFence(state, 8);
    expect(trimmed.slot).toBe(8);
    expect(trimmed.wave.poisons).toEqual([]);
    const genuine = revalidateFence(state, 3);
    expect(genuine.wave).toMatchObject({ kind: 'poison', poisons: [{ slot: 3, bucket: 0 }] });
  });
});

function begin(start: Partial<FenceStart> = {}): FenceState {
  const quorum = { buckets: 3, copies: 2 };
  return beginFence({ quorum, window: 4, checkpoint: 0, own: false, ...start });
}

/** Answers a wave from cells a slot: `f p . x ?`; writes succeed unless the cell says otherwise. */
function answer(
  wave: FenceWave,
  cells: (slot: number) => string,
  options: {
    verdicts?: string;
    put?: (slot: number, bucket: number) => Partial<PutAnswer>;
  } = {},
): FenceAnswers {
  const { verdicts = 'ccc', put } = options;
  const answers = { released: -1, sizeBytes: 100, print: 0, cell: UNKNOWN } as const;
  const targets = [
    ...wave.poisons,
    ...wave.repairs.flatMap(({ slot, targets: buckets }) =>
      buckets.map((bucket) => ({ slot, bucket })),
    ),
  ];
  return {
    puts: targets.map(({ slot, bucket }) => ({
      ...answers,
      slot,
      bucket,
      outcome: 'created',
      ...put?.(slot, bucket),
    })),
    reads: wave.reads.map(({ slot, ask }) => {
      const seen = cells(slot)
        .split('')
        .map((letter, bucket) => ((ask >> bucket) & 1 ? (LETTERS[letter] ?? UNKNOWN) : UNKNOWN));
      const prints = seen.map((cell) => (cell === FLIGHT ? 7 : 0));
      return { slot, cells: seen, prints, released: -1, sizeBytes: 100 };
    }),
    identities: verdicts.split('').flatMap((letter, bucket) =>
      (wave.identities >> bucket) & 1
        ? [
            {
              bucket,
              verdict:
                letter === 'c'
                  ? ('confirmed' as const)
                  : letter === 'l'
                    ? ('lost' as const)
                    : ('unknown' as const),
            },
          ]
        : [],
    ),
  };
}

/** Steps until the wave is of one of these kinds; the record never changes. */
function stepTo(
  state: FenceState,
  kinds: readonly FenceWave['kind'][],
  cells: (slot: number) => string,
  options: Parameters<typeof answer>[2] = {},
): FenceState {
  for (let steps = 0; steps < 40; steps++) {
    if (kinds.includes(state.wave.kind)) return state;
    state =
      state.wave.kind === 'revalidate'
        ? revalidateFence(state, state.checkpoint)
        : stepFence(state, answer(state.wave, cells, options));
  }
  throw new Error(`the walk does not reach ${kinds.join(' or ')}`);
}

describe('identity of buckets', () => {
  const untouched = (): string => '...';

  it('lets poison count only after an identity read begun after it', () => {
    let state = stepTo(begin(), ['poison'], untouched);
    // The identity that is read with the poison does not speak for it.
    state = stepFence(state, answer(state.wave, untouched));
    expect(state.rows[0]!.cells[0]).not.toBe(POISON);
    state = stepFence(state, answer(state.wave, untouched));
    expect(state.rows[0]!.cells[0]).toBe(POISON);
  });

  it('gives a bucket without its identity no vote, and writes nothing into it', () => {
    const puts: number[] = [];
    const cut = stepTo(begin(), ['cut', 'undecided'], untouched, {
      verdicts: 'lcc',
      put: (_, bucket) => {
        puts.push(bucket);
        return {};
      },
    });
    expect(cut.wave.kind).toBe('cut');
    expect(puts).toEqual([1, 2]);
  });

  it('is undecided when a lost bucket and a silent one hold the deciding votes', () => {
    const state = stepTo(begin(), ['cut', 'undecided'], () => '?..', { verdicts: 'ccl' });
    expect(state.wave).toMatchObject({ kind: 'undecided', slot: 0, blocked: 0b101 });
  });

  it('does not decide by poison whose bucket cannot be confirmed', () => {
    const state = stepTo(begin(), ['cut', 'undecided'], () => 'pp.', { verdicts: 'cuu' });
    expect(state.wave).toMatchObject({ kind: 'undecided', slot: 0 });
  });

  it('repairs the one remaining copy instead of poisoning the wiped and the empty bucket', () => {
    const state = stepTo(begin(), ['repair'], (slot) => (slot === 0 ? 'f..' : '...'), {
      verdicts: 'clc',
    });
    expect(state.wave.repairs).toMatchObject([{ slot: 0, sources: [0], targets: [2] }]);
  });

  it('takes a flight in a lost bucket for content, not for a copy', () => {
    const state = stepTo(begin(), ['repair'], (slot) => (slot === 0 ? '.f.' : '...'), {
      verdicts: 'clc',
    });
    expect(state.wave.repairs).toMatchObject([{ slot: 0, sources: [1], targets: [0, 2] }]);
  });

  it('begins again when a slot was passed because of a copy in a bucket that is lost', () => {
    const cells = (slot: number): string => (slot === 0 ? 'ff.' : '...');
    const first = begin();
    const passed = stepFence(first, answer(first.wave, cells));
    expect(passed.slot).toBe(1);
    expect(passed.wave.identities & 0b011).toBe(0b011);
    const again = stepFence(passed, answer(passed.wave, cells, { verdicts: 'clc' }));
    expect(again).toMatchObject({ slot: 0, lost: 0b010 });
    const confirmed = stepFence(passed, answer(passed.wave, cells));
    expect(confirmed).toMatchObject({ slot: 1, leaning: 0 });
  });

  it('counts a bucket again once it shows its identity', () => {
    const lost = stepTo(begin(), ['undecided'], () => '?..', { verdicts: 'ccl' });
    const back = stepFence(
      lost,
      answer(lost.wave, () => '?..'),
    );
    expect(back.lost).toBe(0);
    expect(stepTo(back, ['cut', 'undecided'], () => '?..').wave.kind).toBe('cut');
  });
});

describe('damage and failures', () => {
  it('does not let a copy that fails its checksum decide', () => {
    const state = stepTo(begin(), ['cut', 'undecided'], (slot) => (slot === 0 ? 'xpf' : '...'));
    expect(state.wave).toMatchObject({ kind: 'undecided', blocked: 0b001 });
  });

  it('takes the next source when the body of the first does not verify', () => {
    const cells = (slot: number): string => (slot === 0 ? 'ff...' : '.....');
    const quorum = { buckets: 5, copies: 3 };
    let state = stepTo(begin({ quorum }), ['repair'], cells, { verdicts: 'ccccc' });
    const damaged = {
      ...answer(state.wave, cells),
      puts: [
        {
          slot: 0,
          bucket: 0,
          outcome: 'held',
          cell: CORRUPT,
          print: 7,
          released: -1,
          sizeBytes: 0,
        },
      ] satisfies PutAnswer[],
    };
    state = stepTo(stepFence(state, damaged), ['repair'], cells, { verdicts: 'ccccc' });
    // Its head reads sound again, and still it is no source.
    expect(state.wave.repairs).toMatchObject([{ slot: 0, sources: [1], targets: [2, 3, 4] }]);
  });

  it('moves on to the next bucket when one refuses poison, and pauses when all do', () => {
    const refused: number[] = [];
    const state = stepTo(begin(), ['undecided', 'cut'], () => '...', {
      put: (_, bucket) => {
        refused.push(bucket);
        return { outcome: 'failed' };
      },
    });
    expect(refused).toEqual([0, 1, 2]);
    expect(state.wave.kind).toBe('undecided');
    // After the pause it tries again.
    const again = stepFence(
      state,
      answer(state.wave, () => '...'),
    );
    expect(stepTo(again, ['cut', 'undecided'], () => '...').wave.kind).toBe('cut');
  });

  it('stops at poison that a higher flight contradicts, and claims nothing below it', () => {
    const cells = (slot: number): string => ['fff', 'pp.', '...', 'fff'][slot] ?? '...';
    let state = begin();
    for (let steps = 0; steps < 20 && state.wave.kind !== 'cut'; steps++) {
      const told = answer(state.wave, cells);
      const reads = told.reads.map((seen) =>
        seen.slot === 3 && seen.cells.includes(FLIGHT) ? { ...seen, released: 2 } : seen,
      );
      state =
        state.wave.kind === 'revalidate'
          ? revalidateFence(state, 0)
          : stepFence(state, { ...told, reads });
    }
    // Publication compares both: see publication.test.ts.
    expect(state).toMatchObject({ slot: 1, released: 2 });
  });

  it('reads on without probing when too few buckets answer probes', () => {
    const state = stepTo(begin(), ['observe', 'undecided'], () => '??.');
    expect(state.wave).toMatchObject({ slot: 0 });
  });
});

describe('any chain', () => {
  interface Situation {
    readonly chain: SparseChain;
    readonly start: Partial<FenceStart>;
  }

  const quorums = fc
    .integer({ min: 1, max: 5 })
    .chain((buckets) =>
      fc.record({ buckets: fc.constant(buckets), copies: fc.integer({ min: 1, max: buckets }) }),
    );

  const situations: fc.Arbitrary<Situation & { readonly seed: number }> = fc
    .record({
      quorum: quorums,
      window: fc.integer({ min: 1, max: 40 }),
      tail: fc.nat(3_000),
      back: fc.nat(3_000),
      hint: fc.option(fc.nat(4_000), { nil: undefined }),
      seed: fc.nat(),
    })
    .map(({ quorum, window, tail, back, hint, seed }) => {
      const chain = new SparseChain({ ...quorum, window, tail });
      const prng = new Prng(seed);
      // Anything a writer and dead fencers may leave above the acknowledged slots.
      for (let slot = tail; slot < tail + window; slot++) {
        let poisons = 0;
        for (let bucket = 0; bucket < quorum.buckets; bucket++) {
          const roll = prng.fraction();
          const mayPoison = slot === tail || poisons < quorum.buckets - quorum.copies + 1;
          if (roll < 0.4) chain.setCell(slot, bucket, FLIGHT);
          else if (roll < 0.5 && mayPoison) {
            chain.setCell(slot, bucket, POISON);
            poisons++;
          }
        }
      }
      const checkpoint = Math.max(0, tail - back);
      return { chain, start: { quorum, window, checkpoint, tailHint: hint }, seed };
    });

  /** Every bucket answers now and then, so the walk ends; each step is checked. */
  function lossyWalk(
    { chain, start, seed }: Situation & { seed: number },
    losses: number,
  ): FenceState {
    const prng = new Prng(seed + 1);
    let state = begin(start);
    for (let steps = 0; state.wave.kind !== 'cut'; steps++) {
      if (steps > 20_000) throw new Error('the walk does not end');
      const { slot } = state;
      state = JSON.parse(JSON.stringify(state)) as FenceState;
      if (state.wave.kind === 'revalidate') {
        state = revalidateFence(state, state.checkpoint);
        continue;
      }
      const answers = chain.answer(state.wave);
      state = stepFence(state, {
        reads: answers.reads.map((seen) => ({
          ...seen,
          cells: seen.cells.map((cell) => (prng.chance(losses) ? UNKNOWN : cell)),
        })),
        puts: answers.puts.map((put) =>
          prng.chance(losses) ? { ...put, outcome: 'failed' as const } : put,
        ),
        identities: answers.identities.map((identity) =>
          prng.chance(losses) ? { ...identity, verdict: 'unknown' as const } : identity,
        ),
      });
      expect(state.slot).toBeGreaterThanOrEqual(slot);
    }
    return state;
  }

  const flightsAt = (chain: SparseChain, slot: number): number => countAt(chain, slot, FLIGHT);
  const countAt = (chain: SparseChain, slot: number, code: CellCode): number => {
    let count = 0;
    for (let bucket = 0; bucket < chain.buckets; bucket++) {
      if (chain.cell(slot, bucket) === code) count++;
    }
    return count;
  };

  for (const losses of [0, 0.3]) {
    it(`is cut at its first dead slot, with no hole below, when ${losses * 100} % of answers are lost`, () => {
      let stuck = 0;
      fc.assert(
        fc.property(situations, (situation) => {
          const { chain } = situation;
          let end: FenceState;
          try {
            end = lossyWalk(situation, losses);
          } catch {
            // A flight and poison in too many buckets: nobody can ever decide such a slot.
            stuck++;
            return;
          }
          const cut = end.slot;
          expect(countAt(chain, cut, POISON)).toBeGreaterThan(chain.buckets - chain.copies);
          for (let slot = chain.tail; slot < cut; slot++) {
            expect(flightsAt(chain, slot)).toBeGreaterThanOrEqual(chain.copies);
          }
          expect(cut).toBeGreaterThanOrEqual(chain.tail);
        }),
        { numRuns: 300 },
      );
      expect(stuck).toBeLessThan(30);
    });
  }

  it('costs what its waves say', () => {
    const cost: WalkCost = walk(chainOf(10));
    const chain = chainOf(10);
    let gets = 0;
    walk(chain, {}, undefined, (wave) => {
      gets += costOf(wave).gets;
    });
    expect(gets).toBe(cost.gets);
  });
});
