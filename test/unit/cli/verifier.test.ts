import { describe, expect, it } from 'vitest';
import type { Corpus } from '../../../src/cli/load/corpus.ts';
import { decodeReport, encodeReport, type AckReport } from '../../../src/cli/load/reports.ts';
import { buildSubmission, submissionIdOf } from '../../../src/cli/load/submission.ts';
import { isClean, StreamVerifier, type Verdict } from '../../../src/cli/load/verifier.ts';
import type { ReadRecord } from '../../../src/engine/api.ts';
import { crc32 } from '../../../src/format/crc.ts';
import { record } from './support.ts';

const encoder = new TextEncoder();
const lines = [
  'Licensed under',
  'the Apache License',
  'Version 2.0',
  'you may not',
  'use this',
].map((text) => encoder.encode(text));
const corpus: Corpus = { lines, checksums: Uint32Array.from(lines, (line) => crc32(line)) };

const COUNT = 3;

/** `batches` batches of one producer as they would be read back, and their acknowledgements. */
function appended(batches: number): { records: ReadRecord[]; acks: AckReport[] } {
  const records: ReadRecord[] = [];
  const acks: AckReport[] = [];
  for (let batch = 0; batch < batches; batch++) {
    const id = { run: 7, producer: 1, batch, count: COUNT };
    const submission = buildSubmission(corpus, batch * COUNT, id);
    const start = records.length;
    for (const { body, headers } of submission.records) {
      const [name, value] = headers![0]!;
      records.push(
        record(records.length, body as Uint8Array, {
          timestamp: 1_000,
          headers: [[name as Uint8Array, encoder.encode(value as string)]],
        }),
      );
    }
    acks.push({
      run: 7,
      producer: 1,
      batch,
      stream: 0,
      start,
      startTimestamp: records[start]!.timestamp,
      end: start + COUNT,
      endTimestamp: records[start + COUNT - 1]!.timestamp,
      checksum: submission.checksum,
      bodyBytes: submission.bodyBytes,
      latencyMillis: 1,
    });
  }
  return { records, acks };
}

function verdictOf(records: readonly ReadRecord[], acks: readonly AckReport[]): Verdict {
  const verifier = new StreamVerifier();
  for (const ack of acks) verifier.acknowledged(ack);
  for (const one of records) verifier.read(one);
  verifier.judge();
  return verifier.verdict();
}

/** Gives the records new places one after the other; the order is what the test wants to be wrong. */
function renumbered(records: readonly ReadRecord[]): ReadRecord[] {
  return records.map((one, at) => ({ ...one, seqNum: at }));
}

describe('the verifier', () => {
  it('finds nothing wrong with what was appended', () => {
    const { records, acks } = appended(4);
    const verdict = verdictOf(records, acks);
    expect(verdict).toEqual({
      records: 12,
      unacknowledged: 0,
      lost: 0,
      altered: 0,
      duplicated: 0,
      outOfOrder: 0,
      torn: 0,
    });
    expect(isClean(verdict)).toBe(true);
  });

  it('does not mind whole batches that were never acknowledged', () => {
    const { records, acks } = appended(4);
    const verdict = verdictOf(records, acks.slice(0, 2));
    expect(verdict).toMatchObject({ unacknowledged: 6, lost: 0 });
    expect(isClean(verdict)).toBe(true);
  });

  it('finds a lost batch in the middle and at the end', () => {
    const { records, acks } = appended(4);
    const without = (batch: number): ReadRecord[] =>
      records.filter(({ seqNum }) => Math.floor(seqNum / COUNT) !== batch);
    // Numbers closed up: positions differ from those acknowledged.
    expect(verdictOf(renumbered(without(1)), acks)).toMatchObject({ lost: 3, outOfOrder: 6 });
    // Numbers left out.
    expect(verdictOf(without(1), acks)).toMatchObject({ lost: 3, outOfOrder: 1 });
    expect(verdictOf(without(3), acks)).toMatchObject({ lost: 3, outOfOrder: 0 });
    expect(verdictOf([], acks)).toMatchObject({ lost: 12 });
  });

  it('finds one lost record', () => {
    const { records, acks } = appended(3);
    const verdict = verdictOf(
      records.filter(({ seqNum }) => seqNum !== 4),
      acks,
    );
    expect(verdict).toMatchObject({ lost: 1, outOfOrder: 1 });
    const last = verdictOf(records.slice(0, -1), acks);
    expect(last).toMatchObject({ lost: 1 });
  });

  it('finds a submission that is read twice', () => {
    const { records, acks } = appended(3);
    const again = [...records, ...records.slice(3, 6)];
    expect(verdictOf(renumbered(again), acks)).toMatchObject({ duplicated: 3, lost: 0 });
    // Also when nobody acknowledged it.
    expect(verdictOf(renumbered(again), [])).toMatchObject({ duplicated: 3 });
    const one = [...records.slice(0, 5), records[4]!, ...records.slice(5)];
    expect(verdictOf(renumbered(one), [])).toMatchObject({ duplicated: 1 });
  });

  it('finds two batches that changed places', () => {
    const { records, acks } = appended(3);
    const moved = [...records.slice(3, 6), ...records.slice(0, 3), ...records.slice(6)];
    expect(verdictOf(renumbered(moved), acks)).toMatchObject({ lost: 0, duplicated: 0 });
    expect(verdictOf(renumbered(moved), acks).outOfOrder).toBeGreaterThanOrEqual(6);
    // Not acknowledged, but still of one producer.
    expect(verdictOf(renumbered(moved), [])).toMatchObject({ outOfOrder: 1 });
  });

  it('finds two records that changed places', () => {
    const { records, acks } = appended(2);
    const moved = [records[1]!, records[0]!, ...records.slice(2)];
    expect(verdictOf(renumbered(moved), acks).outOfOrder).toBeGreaterThan(0);
    expect(verdictOf(renumbered(moved), [])).toMatchObject({ outOfOrder: 1, duplicated: 0 });
  });

  it('finds altered bytes, swapped bodies and altered timestamps', () => {
    const { records, acks } = appended(2);
    const body = Uint8Array.from(records[1]!.body);
    body[0]! ^= 1;
    const altered = records.with(1, { ...records[1]!, body });
    expect(verdictOf(altered, acks)).toMatchObject({ lost: 3, altered: 3 });
    const swapped = records
      .with(0, { ...records[0]!, body: records[1]!.body })
      .with(1, { ...records[1]!, body: records[0]!.body });
    expect(verdictOf(swapped, acks)).toMatchObject({ lost: 3, altered: 3, outOfOrder: 0 });
    const late = records.with(2, { ...records[2]!, timestamp: records[2]!.timestamp + 1 });
    expect(verdictOf(late, acks)).toMatchObject({ altered: 3 });
  });

  it('finds timestamps that decrease and batches that are torn', () => {
    const { records, acks } = appended(2);
    const back = records.with(4, { ...records[4]!, timestamp: 0 });
    expect(verdictOf(back, acks)).toMatchObject({ outOfOrder: 1 });
    const torn = verdictOf(records.slice(0, 4), acks.slice(0, 1));
    expect(torn).toMatchObject({ torn: 2, lost: 0, unacknowledged: 1 });
    expect(isClean(torn)).toBe(false);
  });

  it('counts records of others and commands without judging them', () => {
    const { records, acks } = appended(1);
    const command = { kind: 'trim', trimPoint: 0 } as const;
    const others = [record(3, 'text'), record(4, '', { command })];
    expect(verdictOf([...records, ...others], acks)).toMatchObject({ records: 4, lost: 0 });
  });

  it('judges only what was acknowledged before reading began', () => {
    const { records, acks } = appended(2);
    const verifier = new StreamVerifier();
    verifier.acknowledged(acks[0]!);
    const due = verifier.dueCount;
    verifier.acknowledged(acks[1]!);
    for (const one of records.slice(0, 3)) verifier.read(one);
    verifier.judge(due);
    expect(verifier.verdict()).toMatchObject({ lost: 0 });
    expect(verifier.next).toBe(3);
    for (const one of records.slice(3)) verifier.read(one);
    verifier.judge();
    expect(verifier.verdict()).toMatchObject({ lost: 0, unacknowledged: 0, records: 6 });
  });
});

describe('ids and reports', () => {
  it('come back as they were', () => {
    const { records, acks } = appended(1);
    expect(submissionIdOf(records[2]!)).toEqual({
      run: 7,
      producer: 1,
      batch: 0,
      index: 2,
      count: COUNT,
    });
    const report = { kind: 'ack', ack: acks[0]! } as const;
    const line = encodeReport(report);
    expect(line).toMatch(/^\[[\d.,]+\]\n$/);
    expect(decodeReport(line)).toEqual(report);
    const submitted = { kind: 'submitted', batches: 5 } as const;
    expect(decodeReport(encodeReport(submitted))).toEqual(submitted);
  });

  it.each(['', '1.2.3.4', '1.2.3.4.5.6', '1..3.4.5', '1.2.3.4.', 'a.2.3.4.5', '-1.2.3.4.5'])(
    '%j is no id',
    (text) => {
      const headers = [[encoder.encode('id'), encoder.encode(text)]] as const;
      expect(submissionIdOf(record(0, '', { headers }))).toBeUndefined();
    },
  );
});
