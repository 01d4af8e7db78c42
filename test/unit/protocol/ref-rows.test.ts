import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import { Prng } from '../../../src/lib/prng.ts';
import { endOf, type SourceEntry } from '../../../src/protocol/coverage.ts';
import { encodeRecordValue, type RefRow } from '../../../src/protocol/records.ts';
import {
  chainEnd,
  chainState,
  nextRow,
  ROW_FRAME_BYTES,
  rowFault,
  spanAt,
  stateAfter,
} from '../../../src/protocol/ref-rows.ts';
import { META_VALUE_BYTES_MAX } from '../../../src/ports/metastore.ts';
import { entryOf, sourceFor, stored } from '../../support/row-samples.ts';

const LIMIT = META_VALUE_BYTES_MAX;

function step(last: RefRow | undefined, entries: readonly SourceEntry[], limit = LIMIT) {
  return nextRow(last, entries, sourceFor(), limit);
}

function created(last: RefRow | undefined, entries: readonly SourceEntry[], limit = LIMIT) {
  const next = step(last, entries, limit);
  if (next.kind !== 'create') throw new Error(`expected a row, got ${next.kind}`);
  return stored(next.row);
}

/** Rows until everything is covered, as one builder alone creates them. */
function chain(entries: readonly SourceEntry[], limit = LIMIT): RefRow[] {
  const rows: RefRow[] = [];
  while (step(rows.at(-1), entries, limit).kind === 'create') {
    rows.push(created(rows.at(-1), entries, limit));
  }
  return rows;
}

describe('the next row of a chain', () => {
  it('starts at 0 when there is none', () => {
    const row = created(undefined, [entryOf(0, 3), entryOf(3, 2)]);
    expect(row).toMatchObject({ start: 0, end: 5, epoch: 3, star: 'main' });
    expect(row.spans.map((span) => span.seq)).toEqual([0, 3]);
    expect(rowFault(row, 0)).toBeUndefined();
  });

  it('starts where the last one ends and skips what is covered', () => {
    const first = created(undefined, [entryOf(0, 3), entryOf(3, 2)]);
    const row = created(first, [entryOf(0, 3), entryOf(3, 2), entryOf(5, 1)]);
    expect(row).toMatchObject({ start: 5, end: 6 });
    expect(row.spans).toHaveLength(1);
  });

  it('is none when the rows reach the end of every entry', () => {
    const first = created(undefined, [entryOf(0, 5)]);
    expect(step(first, [entryOf(0, 2), entryOf(2, 3)])).toEqual({ kind: 'covered', end: 5 });
    expect(step(first, [])).toEqual({ kind: 'covered', end: 5 });
    expect(step(undefined, [])).toEqual({ kind: 'covered', end: 0 });
  });

  it('S4: is refused above a gap, whatever stands beyond it', () => {
    const first = created(undefined, [entryOf(0, 2)]);
    const gap = step(first, [entryOf(0, 2), entryOf(4, 2), entryOf(6, 1)]);
    expect(gap).toEqual({ kind: 'gap', end: 2, next: 4 });
    expect(step(undefined, [entryOf(1, 1)])).toEqual({ kind: 'gap', end: 0, next: 1 });
  });

  it('ends before a hole within the epoch: another epoch covers it', () => {
    const first = created(undefined, [entryOf(0, 2), entryOf(4, 2)]);
    expect(first.end).toBe(2);
    const bridged = created(first, [entryOf(2, 2)]);
    expect(created(bridged, [entryOf(0, 2), entryOf(4, 2)])).toMatchObject({ start: 4, end: 6 });
  });

  it('refuses a batch across the end of the rows', () => {
    const first = created(undefined, [entryOf(0, 3)]);
    expect(() => step(first, [entryOf(2, 3)])).toThrow(EngineError);
    expect(() => step(first, [entryOf(2, 3)])).toThrow(/lies across the end/);
  });

  it('asserts that entries ascend', () => {
    expect(() => step(undefined, [entryOf(0, 3), entryOf(2, 3)])).toThrow(/ascend/);
  });

  it('names the epoch its entries come from, one epoch a row', () => {
    const first = created(undefined, [entryOf(0, 3)]);
    const next = nextRow(first, [entryOf(3, 1)], sourceFor(9, 'other'), LIMIT);
    expect(next).toMatchObject({ kind: 'create', row: { star: 'other', epoch: 9, start: 3 } });
  });
});

describe('the state at the end of a row', () => {
  it('goes on from the last row: token as set last, trim only rises, last timestamp', () => {
    const first = created(undefined, [
      entryOf(0, 2, 0, { fencingToken: 'a', trimPoint: 1 }),
      entryOf(2, 1, 1, { trimPoint: 0 }),
    ]);
    expect(first.state).toEqual({ fencingToken: 'a', trimPoint: 1, lastTimestamp: 20 });
    const second = created(first, [entryOf(3, 1), entryOf(4, 1, 9, { fencingToken: '' })]);
    expect(second.state).toEqual({ fencingToken: '', trimPoint: 1, lastTimestamp: 40 });
    expect(chainState(second)).toBe(second.state);
  });

  it('starts empty', () => {
    expect(chainState(undefined)).toEqual({ fencingToken: '', trimPoint: 0, lastTimestamp: 0 });
    expect(chainEnd(undefined)).toBe(0);
  });

  it('never goes back in time', () => {
    const state = { fencingToken: '', trimPoint: 4, lastTimestamp: 100 };
    expect(stateAfter(state, entryOf(1, 1, 1, { trimPoint: 3 }))).toEqual(state);
  });
});

describe('rows of many spans', () => {
  const many = Array.from({ length: 5_000 }, (_, seq) => entryOf(seq, 1, 1_000_000_000 + seq));

  it('stay below the size of a metastore value, with room for mark and names', () => {
    const rows = chain(many);
    expect(rows.length).toBeGreaterThan(4);
    for (const row of rows) {
      const marked = {
        ...row,
        star: 's'.repeat(63),
        builder: { star: 'b'.repeat(63), incarnation: 'f'.repeat(32) },
        state: {
          fencingToken: '\u0001'.repeat(36),
          trimPoint: 2 ** 53 - 1,
          lastTimestamp: 2 ** 53,
        },
        mark: {
          tenure: {
            star: 's'.repeat(63),
            incarnation: 'f'.repeat(32),
            class: 'standard' as const,
            epoch: 2 ** 53 - 1,
          },
          tail: row.end,
        },
      };
      expect(encodeRecordValue(marked).length).toBeLessThanOrEqual(LIMIT);
    }
    // Full but for the frame and at most one more span.
    const used = encodeRecordValue(rows[0]!).length;
    expect(used).toBeGreaterThan(LIMIT - ROW_FRAME_BYTES - 200);
  });

  it('are cut alike by every builder and tile the positions', () => {
    const rows = chain(many);
    expect(rows.map((row) => [row.start, row.end])).toEqual(
      chain(many).map((row) => [row.start, row.end]),
    );
    expect(rows[0]!.start).toBe(0);
    rows.slice(1).forEach((row, index) => expect(row.start).toBe(rows[index]!.end));
    expect(rows.at(-1)!.end).toBe(5_000);
  });

  it('take one span at least, even if the limit is absurd', () => {
    const rows = chain([entryOf(0, 1), entryOf(1, 1)], 10);
    expect(rows.map((row) => row.end)).toEqual([1, 2]);
  });

  it('find the span of every position', () => {
    const row = created(undefined, [entryOf(0, 3), entryOf(3, 1), entryOf(4, 5)]);
    const found = Array.from({ length: 9 }, (_, seq) => spanAt(row, seq).seq);
    expect(found).toEqual([0, 0, 0, 3, 4, 4, 4, 4, 4]);
    expect(() => spanAt(row, 9)).toThrow();
  });
});

describe('a row that was read', () => {
  const row = created(undefined, [entryOf(0, 3), entryOf(3, 2)]);

  it.each([
    ['another key', { ...row }, 1, 'start differs from the key'],
    ['no spans', { ...row, spans: [] }, 0, 'no spans'],
    ['a hole', { ...row, spans: [row.spans[0]!, { ...row.spans[1]!, seq: 4 }] }, 0, 'contiguous'],
    ['another end', { ...row, end: 6 }, 0, 'end differs'],
  ])('with %s is refused', (_, wrong, start, fault) => {
    expect(rowFault(wrong, start)).toContain(fault);
  });
});

describe('any split of a stream into builders', () => {
  it('covers every position once, with the state of a single pass', () => {
    for (let seed = 0; seed < 200; seed++) {
      const prng = new Prng(seed);
      const entries: SourceEntry[] = [];
      for (let seq = 0; entries.length < 30; seq = endOf(entries.at(-1)!)) {
        const delta = prng.chance(0.2)
          ? { trimPoint: prng.below(seq + 1), fencingToken: prng.hex(2) }
          : undefined;
        entries.push(entryOf(seq, 1 + prng.below(4), entries.length, delta));
      }
      const rows: RefRow[] = [];
      while (chainEnd(rows.at(-1)) < endOf(entries.at(-1)!)) {
        // A builder that knows any stretch of the entries, old or new.
        const from = prng.below(entries.length);
        const to = from + 1 + prng.below(entries.length - from);
        const next = step(rows.at(-1), entries.slice(from, to), 2_400);
        if (next.kind === 'create') rows.push(stored(next.row));
        else if (next.kind === 'gap') expect(next.next).toBeGreaterThan(next.end);
      }
      expect(rows.flatMap((row) => row.spans)).toEqual(entries.map((entry) => entry.span));
      const state = entries.reduce(stateAfter, chainState(undefined));
      expect(rows.at(-1)!.state).toEqual(state);
    }
  });
});
