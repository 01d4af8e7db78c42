import { describe, expect, it } from 'vitest';
import {
  decidePublication,
  fencedRecord,
  type RecordCursors,
} from '../../../src/protocol/publication.ts';
import type { EpochRecord } from '../../../src/protocol/records.ts';

const open = (checkpoint: number, trimmed = 0): RecordCursors => ({
  state: 'open',
  checkpoint,
  trimmed,
});
const fenced = (cut: number, checkpoint = 0, trimmed = 0): RecordCursors => ({
  state: 'fenced',
  checkpoint,
  trimmed,
  cut,
});

describe('publication of a cut', () => {
  it('publishes a valid walk on an open record', () => {
    expect(decidePublication(open(3), { cut: 5, released: 5 })).toEqual({ kind: 'publish' });
    expect(decidePublication(open(5), { cut: 5, released: 0 })).toEqual({ kind: 'publish' });
  });

  it('takes the same cut of another fencer for its own', () => {
    expect(decidePublication(fenced(5), { cut: 5, released: 5 })).toEqual({
      kind: 'recorded',
      cut: 5,
    });
  });

  it('adopts the recorded cut after a walk that met deleted slots', () => {
    const settled: RecordCursors = { state: 'settled', checkpoint: 9, trimmed: 7, cut: 9 };
    expect(decidePublication(settled, { cut: 4, released: 0 })).toEqual({ kind: 'adopt', cut: 9 });
    const retired: RecordCursors = { state: 'retired', checkpoint: 9, trimmed: 9, cut: 9 };
    expect(decidePublication(retired, { cut: 8, released: 0 })).toEqual({ kind: 'adopt', cut: 9 });
  });

  it('walks again when slots were deleted and nobody published', () => {
    expect(decidePublication(open(9, 7), { cut: 6, released: 0 })).toEqual({
      kind: 'restart',
      checkpoint: 9,
    });
  });

  it('reports a dead slot that the checkpoint proves acknowledged and nobody may have deleted', () => {
    expect(decidePublication(open(9, 7), { cut: 7, released: 0 })).toEqual({
      kind: 'acknowledged-poisoned',
      provenTo: 9,
    });
  });

  it('keeps a recorded cut that a walk into damage contradicts, unless it lies in the damage', () => {
    const walk = { cut: 5, released: 8 };
    expect(decidePublication(fenced(9), walk)).toEqual({ kind: 'adopt', cut: 9 });
    expect(decidePublication(fenced(8), walk)).toEqual({ kind: 'adopt', cut: 8 });
    // F1: whoever recorded this cut shortened the epoch.
    for (const cut of [5, 7]) {
      expect(decidePublication(fenced(cut), walk)).toEqual({
        kind: 'acknowledged-poisoned',
        provenTo: 8,
      });
    }
  });

  it('reports a dead slot that a higher flight proves acknowledged', () => {
    expect(decidePublication(open(3), { cut: 5, released: 6 })).toEqual({
      kind: 'acknowledged-poisoned',
      provenTo: 6,
    });
  });

  it('calls two valid cuts a disagreement, whichever is higher (F3)', () => {
    expect(decidePublication(fenced(5), { cut: 6, released: 0 })).toEqual({
      kind: 'disagreement',
      recorded: 5,
    });
    expect(decidePublication(fenced(5, 2), { cut: 3, released: 0 })).toEqual({
      kind: 'disagreement',
      recorded: 5,
    });
  });

  it('refuses records that contradict themselves', () => {
    expect(() => decidePublication(open(3, 4), { cut: 5, released: 0 })).toThrow('trimmed');
    const noCut: RecordCursors = { state: 'fenced', checkpoint: 0, trimmed: 0 };
    expect(() => decidePublication(noCut, { cut: 5, released: 0 })).toThrow('cut');
  });
});

describe('the record with its cut', () => {
  const record = { state: 'open', checkpoint: 4, trimmed: 0, tailSwept: false } as EpochRecord;
  const by = { star: 'b', incarnation: '0a'.repeat(16), atMillis: 9 };

  it('keeps everything but the state', () => {
    expect(fencedRecord(record, 7, by)).toEqual({
      ...record,
      state: 'fenced',
      cut: 7,
      fencedBy: by,
    });
  });

  it('is written from an open record only, at or above its checkpoint', () => {
    expect(() => fencedRecord({ ...record, state: 'fenced', cut: 7 }, 7, by)).toThrow('open');
    expect(() => fencedRecord(record, 3, by)).toThrow('checkpoint');
  });
});
