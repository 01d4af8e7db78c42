/** What a broken engine would tell its clients, each break by construction. */
import { describe, expect, it } from 'vitest';
import { foldRecords } from './chain.ts';
import { check } from './checker.ts';
import { counterExampleOf } from './counter-example.ts';
import type { AppendCall, HistoryEvent, Result } from './events.ts';
import { operationsOf } from './history.ts';

/** Writes a history down by hand: each client is named by its number. */
class Script {
  readonly events: HistoryEvent[] = [];
  readonly #open = new Map<number, number>();
  #count = 0;

  append(clientId: number, hashes: readonly number[], conditions: Partial<AppendCall> = {}): this {
    const call: AppendCall = {
      kind: 'append',
      recordHashes: hashes.map(BigInt),
      setFencingToken: null,
      fencingToken: null,
      matchSeqNum: null,
      ...conditions,
    };
    return this.#start(clientId, call);
  }

  read(clientId: number): this {
    return this.#start(clientId, { kind: 'read' });
  }

  checkTail(clientId: number): this {
    return this.#start(clientId, { kind: 'checkTail' });
  }

  ends(clientId: number, result: Result): this {
    this.events.push({ result, clientId, opId: this.#open.get(clientId)! });
    return this;
  }

  acked(clientId: number, tail: number): this {
    return this.ends(clientId, { kind: 'appendSuccess', tail });
  }

  lost(clientId: number): this {
    return this.ends(clientId, { kind: 'appendIndefiniteFailure' });
  }

  refused(clientId: number): this {
    return this.ends(clientId, { kind: 'appendDefiniteFailure' });
  }

  sees(clientId: number, hashes: readonly number[]): this {
    const streamHash = foldRecords(0n, hashes.map(BigInt));
    return this.ends(clientId, { kind: 'readSuccess', tail: hashes.length, streamHash });
  }

  tailIs(clientId: number, tail: number): this {
    return this.ends(clientId, { kind: 'checkTailSuccess', tail });
  }

  get verdict(): string {
    return check(operationsOf(this.events)).kind;
  }

  #start(clientId: number, call: Extract<HistoryEvent, { call: unknown }>['call']): this {
    const opId = this.#count++;
    this.#open.set(clientId, opId);
    this.events.push({ call, clientId, opId });
    return this;
  }
}

const script = (): Script => new Script();
/** Two records of client 0, acknowledged at the tail 2. */
const two = (): Script => script().append(0, [1, 2]).acked(0, 2);

describe('rejects', () => {
  it.each<[string, Script]>([
    ['a stale tail', two().checkTail(1).tailIs(1, 1)],
    ['a tail that nobody wrote', two().checkTail(1).tailIs(1, 3)],
    ['a lost append', two().read(1).sees(1, [])],
    ['half of an append', two().read(1).sees(1, [1])],
    ['a duplicated append', two().read(1).sees(1, [1, 2, 1, 2])],
    ['two acknowledgements of one place', two().append(1, [3, 4]).acked(1, 2)],
    ['a hole between two appends', two().append(1, [3]).acked(1, 4)],
    ['records in the wrong order', two().read(1).sees(1, [2, 1])],
    ['appends in the wrong order', two().append(1, [3]).acked(1, 3).read(2).sees(2, [3, 1, 2])],
    ['another body', two().read(1).sees(1, [1, 7])],
    [
      'a success of matchSeqNum at another number',
      two().append(1, [3], { matchSeqNum: 1 }).acked(1, 3),
    ],
    [
      'a stale token that was accepted',
      script()
        .append(0, [9], { setFencingToken: 'new' })
        .acked(0, 1)
        .append(1, [1], { fencingToken: 'old' })
        .acked(1, 2),
    ],
    [
      'a token before any was installed',
      script().append(0, [1], { fencingToken: 'x' }).acked(0, 1),
    ],
    [
      'an append of unknown outcome that appears twice',
      two().append(1, [3]).lost(1).read(2).sees(2, [1, 2, 3, 3]),
    ],
    [
      'an append of unknown outcome that disappears again',
      two().append(1, [3]).lost(1).read(2).sees(2, [1, 2, 3]).read(3).sees(3, [1, 2]),
    ],
    [
      'an append of unknown outcome against its condition',
      two().append(1, [3], { matchSeqNum: 1 }).lost(1).read(2).sees(2, [1, 2, 3]),
    ],
    [
      'an append of unknown outcome before it was called',
      two().read(2).sees(2, [1, 2, 3]).append(1, [3]).lost(1),
    ],
    [
      'a definite failure that was appended',
      two().append(1, [3]).refused(1).read(2).sees(2, [1, 2, 3]),
    ],
    [
      'a read that goes back in time',
      two().append(1, [3]).read(2).sees(2, [1, 2, 3]).read(3).sees(3, [1, 2]).acked(1, 3),
    ],
  ])('%s', (_name, { verdict }) => {
    expect(verdict).toBe('violation');
  });
});

describe('accepts', () => {
  it.each<[string, Script]>([
    ['nothing at all', script()],
    ['a right tail', two().checkTail(1).tailIs(1, 2)],
    [
      'reads before and after an append under way',
      two().append(1, [3]).read(2).sees(2, [1, 2]).read(3).sees(3, [1, 2, 3]).acked(1, 3),
    ],
    [
      'an append of unknown outcome that never happens',
      two().append(1, [3]).lost(1).read(2).sees(2, [1, 2]),
    ],
    [
      'an append of unknown outcome that happens much later',
      two().append(1, [3]).lost(1).append(2, [4]).acked(2, 3).read(2).sees(2, [1, 2, 4, 3]),
    ],
    [
      'a refusal whose condition holds: it says nothing',
      two().append(1, [3], { matchSeqNum: 2 }).refused(1),
    ],
    [
      'the own token',
      script()
        .append(0, [9], { setFencingToken: 'mine' })
        .acked(0, 1)
        .append(0, [1], { fencingToken: 'mine' })
        .acked(0, 2)
        .append(1, [2])
        .acked(1, 3),
    ],
    ['a failed read', two().read(1).ends(1, { kind: 'readFailure' })],
  ])('%s', (_name, { verdict }) => {
    expect(verdict).toBe('linearizable');
  });
});

describe('a counter-example', () => {
  it('is the shortest part from the beginning, with what could not be placed and the state', () => {
    const { events } = two()
      .append(1, [3])
      .acked(1, 3)
      .read(2)
      .sees(2, [1, 2])
      .append(0, [4])
      .acked(0, 4);
    expect(counterExampleOf(events, {})).toEqual({
      events: 6,
      answer: `client 2 op 2 [4, 5] read -> 2, hash ${foldRecords(0n, [1n, 2n])}`,
      placed: [
        'client 0 op 0 [0, 1] append(2 records) -> 2',
        'client 1 op 1 [2, 3] append(1 records) -> 3',
      ],
      state: { tail: 3, hash: foldRecords(0n, [1n, 2n, 3n]), token: null },
      unplaced: [`client 2 op 2 [4, 5] read -> 2, hash ${foldRecords(0n, [1n, 2n])}`],
    });
  });
});
