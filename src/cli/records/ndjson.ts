/**
 * Records as JSON, one a line: `{"seqNum":0,"timestamp":1700000000000,"body":"text"}`. Bytes that are not
 * UTF-8 stand in `bodyBase64` and `headersBase64` instead, so that every record survives the way out
 * and in again.
 */
import * as v from 'valibot';
import type { AppendRecord, ReadRecord } from '../../engine/api.ts';
import { EngineError } from '../../lib/errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function recordToJson(record: ReadRecord): string {
  const { seqNum, timestamp, command, headers } = record;
  if (command !== undefined) return JSON.stringify({ seqNum, timestamp, command });
  const body = textOf(record.body);
  return JSON.stringify({
    seqNum,
    timestamp,
    ...(headers.length === 0 ? {} : headersToJson(headers)),
    ...(body === undefined ? { bodyBase64: base64Of(record.body) } : { body }),
  });
}

function headersToJson(headers: ReadRecord['headers']): object {
  const texts = headers.map((pair) => pair.map(textOf));
  if (texts.every((pair) => pair.every((text) => text !== undefined))) return { headers: texts };
  return { headersBase64: headers.map((pair) => pair.map(base64Of)) };
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** Two plain tests: one pattern with a repeated group overflows the stack on a line of megabytes. */
function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[a-z0-9+/]*={0,2}$/i.test(text);
}

const bytesOfBase64 = v.pipe(
  v.string(),
  v.check(isBase64, 'must be base64'),
  v.transform((text): Uint8Array => Buffer.from(text, 'base64')),
);
const timestamp = v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0)));
const inputRecord = v.strictObject({
  body: v.optional(v.string()),
  bodyBase64: v.optional(bytesOfBase64),
  headers: v.optional(v.array(v.strictTuple([v.string(), v.string()]))),
  headersBase64: v.optional(v.array(v.strictTuple([bytesOfBase64, bytesOfBase64]))),
  timestamp,
  /** As `read` prints it; the stream gives a new one. */
  seqNum: v.optional(v.number()),
});

/**
 * The record of one line of input.
 *
 * @throws EngineError INVALID_RECORD naming the input, the line and what is wrong with it.
 */
export function recordFromJson(text: Uint8Array, input: string, line: number): AppendRecord {
  const refuse = (problem: string, path?: string): EngineError =>
    new EngineError('INVALID_RECORD', 'a line of the input is not a record', {
      details: { input, line, path, problem },
    });
  let json: unknown;
  try {
    json = JSON.parse(utf8.decode(text));
  } catch (cause) {
    throw refuse(cause instanceof Error ? cause.message : 'not json');
  }
  if (Array.isArray(json)) throw refuse('must be an object');
  const parsed = v.safeParse(inputRecord, json);
  if (!parsed.success) {
    const [issue] = parsed.issues;
    throw refuse(issue.message, v.getDotPath(issue) ?? undefined);
  }
  const record = parsed.output;
  if (record.body !== undefined && record.bodyBase64 !== undefined) {
    throw refuse('body and bodyBase64 exclude each other', 'bodyBase64');
  }
  if (record.headers !== undefined && record.headersBase64 !== undefined) {
    throw refuse('headers and headersBase64 exclude each other', 'headersBase64');
  }
  const headers = record.headers ?? record.headersBase64;
  return {
    body: record.body ?? record.bodyBase64 ?? '',
    ...(headers === undefined ? {} : { headers }),
    ...(record.timestamp === undefined ? {} : { timestamp: record.timestamp }),
  };
}
