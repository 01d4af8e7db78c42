/** Reads the lines that `events.ts` writes, or that the public tool's collector wrote. */
import * as v from 'valibot';
import { parseLine } from './json-lines.ts';
import type { HistoryEvent, Result } from './events.ts';

/** A file that is no history; says which line and why. */
export class HistoryError extends Error {
  override readonly name = 'HistoryError';
}

const U64_MAX = 2n ** 64n - 1n;
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const hash = v.pipe(
  v.union([v.bigint(), count]),
  v.transform((value) => BigInt(value)),
  v.check((value) => value <= U64_MAX, 'a hash has 64 bits'),
);
const token = v.nullish(v.string(), null);

const append = v.pipe(
  v.object({
    num_records: count,
    record_hashes: v.array(hash),
    set_fencing_token: token,
    fencing_token: token,
    match_seq_num: v.nullish(count, null),
  }),
  v.check(
    ({ num_records, record_hashes }) => num_records === record_hashes.length,
    'num_records is the number of record_hashes',
  ),
);
const start = v.union([
  v.pipe(
    v.literal('Read'),
    v.transform(() => ({ kind: 'read' as const })),
  ),
  v.pipe(
    v.literal('CheckTail'),
    v.transform(() => ({ kind: 'checkTail' as const })),
  ),
  v.pipe(
    v.object({ Append: append }),
    v.transform(({ Append }) => ({
      kind: 'append' as const,
      recordHashes: Append.record_hashes,
      setFencingToken: Append.set_fencing_token,
      fencingToken: Append.fencing_token,
      matchSeqNum: Append.match_seq_num,
    })),
  ),
]);

const failures = {
  AppendDefiniteFailure: 'appendDefiniteFailure',
  AppendIndefiniteFailure: 'appendIndefiniteFailure',
  ReadFailure: 'readFailure',
  CheckTailFailure: 'checkTailFailure',
} as const;
const finish = v.union([
  v.pipe(
    v.picklist(Object.keys(failures) as (keyof typeof failures)[]),
    v.transform((name): Result => ({ kind: failures[name] })),
  ),
  v.pipe(
    v.object({ AppendSuccess: v.object({ tail: count }) }),
    v.transform((it): Result => ({ kind: 'appendSuccess', tail: it.AppendSuccess.tail })),
  ),
  v.pipe(
    v.object({ ReadSuccess: v.object({ tail: count, stream_hash: hash }) }),
    v.transform(({ ReadSuccess: { tail, stream_hash } }): Result => ({
      kind: 'readSuccess',
      tail,
      streamHash: stream_hash,
    })),
  ),
  v.pipe(
    v.object({ CheckTailSuccess: v.object({ tail: count }) }),
    v.transform((it): Result => ({ kind: 'checkTailSuccess', tail: it.CheckTailSuccess.tail })),
  ),
]);

const ids = { client_id: count, op_id: count };
const line = v.union([
  v.pipe(
    v.object({ ...ids, event: v.strictObject({ Start: start }) }),
    v.transform(({ client_id, op_id, event }): HistoryEvent => ({
      call: event.Start,
      clientId: client_id,
      opId: op_id,
    })),
  ),
  v.pipe(
    v.object({ ...ids, event: v.strictObject({ Finish: finish }) }),
    v.transform(({ client_id, op_id, event }): HistoryEvent => ({
      result: event.Finish,
      clientId: client_id,
      opId: op_id,
    })),
  ),
]);

/** @throws HistoryError naming the line. */
export function parseEvents(text: string): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  for (const [index, each] of text.split('\n').entries()) {
    if (each.trim() !== '') events.push(parseEvent(each, index + 1));
  }
  return events;
}

function parseEvent(text: string, number: number): HistoryEvent {
  let value: unknown;
  try {
    value = parseLine(text);
  } catch {
    throw new HistoryError(`line ${number} is no JSON`);
  }
  const parsed = v.safeParse(line, value);
  if (parsed.success) return parsed.output;
  throw new HistoryError(`line ${number} is no event of a history`);
}
