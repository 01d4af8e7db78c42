/**
 * What tells one submitted record from every other: a header `id` with the run of the writer, the
 * producer, its batch, the index in the batch and the size of the batch, in decimal with dots between.
 * It is text so that whoever looks at the records sees where they come from.
 */
import type { AppendRecord, ReadRecord } from '../../engine/api.ts';
import type { Corpus } from './corpus.ts';

export interface SubmissionId {
  readonly run: number;
  readonly producer: number;
  readonly batch: number;
  readonly index: number;
  readonly count: number;
}

/** A batch to submit, and what its read-back is compared with. */
export interface Submission {
  readonly records: readonly AppendRecord[];
  readonly checksum: number;
  readonly bodyBytes: number;
}

const HEADER_NAME = new TextEncoder().encode('id');
const DOT = 0x2e;
const ZERO = 0x30;

/** Consecutive lines of the text, from `firstLine` on, round and round. */
export function buildSubmission(
  corpus: Corpus,
  firstLine: number,
  id: Omit<SubmissionId, 'index'>,
): Submission {
  const records: AppendRecord[] = [];
  const prefix = `${id.run}.${id.producer}.${id.batch}.`;
  let checksum = 0;
  let bodyBytes = 0;
  for (let index = 0; index < id.count; index++) {
    const line = (firstLine + index) % corpus.lines.length;
    const body = corpus.lines[line]!;
    records.push({ body, headers: [[HEADER_NAME, `${prefix}${index}.${id.count}`]] });
    checksum = addChecksum(checksum, corpus.checksums[line]!, index);
    bodyBytes += body.length;
  }
  return { records, checksum, bodyBytes };
}

/** Weighs each body's checksum by its index, so that two bodies that changed places are noticed. */
export function addChecksum(sum: number, bodyChecksum: number, index: number): number {
  return (sum + Math.imul(bodyChecksum, 2 * index + 1)) >>> 0;
}

/** The id of a record, or undefined for a record that no producer of ours submitted. */
export function submissionIdOf(record: ReadRecord): SubmissionId | undefined {
  const [pair, ...others] = record.headers;
  if (pair === undefined || others.length > 0 || !isIdName(pair[0])) return undefined;
  const numbers: number[] = [];
  let value = 0;
  let digits = 0;
  for (const byte of pair[1]) {
    if (byte === DOT && digits > 0) {
      numbers.push(value);
      value = 0;
      digits = 0;
    } else if (byte >= ZERO && byte <= ZERO + 9) {
      value = value * 10 + (byte - ZERO);
      digits++;
    } else {
      return undefined;
    }
  }
  numbers.push(value);
  const [run, producer, batch, index, count] = numbers;
  if (numbers.length !== 5 || digits === 0) return undefined;
  return { run: run!, producer: producer!, batch: batch!, index: index!, count: count! };
}

function isIdName(name: Uint8Array): boolean {
  return name.length === 2 && name[0] === HEADER_NAME[0] && name[1] === HEADER_NAME[1];
}
