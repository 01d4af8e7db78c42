/** Decoders of what people and processes write: records as lines, reports on pipes, words of options. */
import fc from 'fast-check';
import { Buffer } from 'node:buffer';
import { InvalidArgumentError } from 'commander';
import { parseS3Settings } from '../../../src/cli/components.ts';
import { decodeReport, encodeReport, type Report } from '../../../src/cli/load/reports.ts';
import { duration, instant, integerIn, numberIn } from '../../../src/cli/parse.ts';
import { LineSplitter } from '../../../src/cli/records/line-splitter.ts';
import { recordFromJson, recordToJson } from '../../../src/cli/records/ndjson.ts';
import {
  decodeMemberReport,
  encodeMemberReport,
  type MemberReport,
} from '../../../src/cli/takeover/reports.ts';
import { systemProcesses } from '../../../src/adapters/system/processes.ts';
import type { AppendRecord } from '../../../src/engine/api.ts';
import { encodeDemoMark, parseDemoMark } from '../../../src/engine/s3-demos.ts';
import { checkObjectKey, checkObjectPrefix } from '../../../src/lib/object-key.ts';
import { checkMetaBound, checkMetaKey } from '../../../src/ports/metastore-arguments.ts';
import type { BytesDecoder } from '../decoder.ts';

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
const lines = (...texts: string[]): Uint8Array[] => texts.map((text) => Buffer.from(text));
const isUsage = (error: unknown): boolean => error instanceof InvalidArgumentError;
const nobody = { by: 'nothing: whoever wrote it means it' };
const onPipe = { by: 'nothing: a pipe of one machine; what does not parse is refused' };

const DEMO = {
  demo: 'demo-0123456789ab',
  bucket: 'logs',
  prefix: 'a/demo-0123456789ab/',
};
const ack = {
  run: 1,
  producer: 2,
  batch: 3,
  stream: 0,
  start: 4,
  startTimestamp: 5,
  end: 6,
  endTimestamp: 7,
  checksum: 8,
  bodyBytes: 9,
  latencyMillis: 1.5,
};
const REPORTS: readonly Report[] = [
  { kind: 'ack', ack },
  { kind: 'appending', epoch: 3 },
  { kind: 'submitted', batches: 4 },
  { kind: 'closed' },
  { kind: 'failed', error: { code: 'INTERNAL' } },
];
const MEMBER_REPORTS: readonly MemberReport[] = [
  { kind: 'appending', star: 'one' },
  { kind: 'ack', at: 1.5, ack },
  { kind: 'tail', stream: 0, askedAt: 1.5, tail: 3 },
  { kind: 'retry', at: 1, code: 'INTERNAL' },
  { kind: 'gaveUp', producer: 1, code: 'INTERNAL' },
  { kind: 'detected', at: 1, star: 'two' },
  { kind: 'closed' },
];

function word(
  name: string,
  decode: (text: string) => unknown,
  seeds: readonly string[],
): BytesDecoder {
  return {
    kind: 'bytes',
    name,
    file: 'src/cli/parse.ts',
    seeds: lines(...seeds),
    decode: (bytes) => {
      const value = decode(textOf(bytes));
      if (!Number.isFinite(value)) throw new Error(`answers ${String(value)}`);
      return value;
    },
    codes: [],
    mayThrow: isUsage,
    covered: nobody,
  };
}

function key(
  name: string,
  file: string,
  decode: (text: string) => void,
  seed: string,
): BytesDecoder {
  return {
    kind: 'bytes',
    name,
    file,
    seeds: lines(seed),
    decode: (bytes) => decode(textOf(bytes)),
    codes: ['INVALID_NAME'],
    covered: nobody,
  };
}

export const TEXT_DECODERS: readonly BytesDecoder[] = [
  {
    kind: 'bytes',
    name: 'recordFromJson',
    file: 'src/cli/records/ndjson.ts',
    seeds: lines(
      '{"seqNum":0,"timestamp":1000,"headers":[["k","v"]],"body":"gr\u00fc\u00dfe"}',
      '{"bodyBase64":"/w==","headersBase64":[["a2V5","/w=="]]}',
      '{}',
    ),
    sound: fc
      .record(
        {
          timestamp: fc.nat(),
          body: fc.string({ unit: 'grapheme' }),
          headers: fc.array(
            fc.tuple(
              fc.string({ unit: 'grapheme', minLength: 1 }),
              fc.string({ unit: 'grapheme' }),
            ),
            { maxLength: 4 },
          ),
        },
        { requiredKeys: [] },
      )
      .map((record) => Buffer.from(JSON.stringify(record))),
    decode: (bytes) => withBytes(recordFromJson(bytes, 'in.txt', 1)),
    codes: ['INVALID_RECORD'],
    covered: nobody,
    reencode: jsonOf,
  },
  {
    kind: 'bytes',
    name: 'parseS3Settings',
    file: 'src/cli/components.ts',
    seeds: lines(
      '{"buckets":[{"bucket":"one-bucket","prefix":"a/"}],"metastore":{"root":"/d"}}',
      '{"region":"r","credentials":{"from":"chain"},"buckets":[{"bucket":"one-bucket"}]}',
    ),
    decode: (bytes) => parseS3Settings(textOf(bytes), 's3.json'),
    codes: ['INVALID_OPTION'],
    covered: nobody,
  },
  {
    kind: 'bytes',
    name: 'parseDemoMark',
    file: 'src/engine/s3-demos.ts',
    seeds: [encodeDemoMark(DEMO, systemProcesses().self())],
    decode: (bytes) => parseDemoMark(textOf(bytes), DEMO),
    codes: [],
    covered: nobody,
  },
  {
    kind: 'bytes',
    name: 'LineSplitter',
    file: 'src/cli/records/line-splitter.ts',
    seeds: lines('one\ntwo\n\nthree', `${'x'.repeat(60)}\n`),
    decode: (bytes) => {
      const splitter = new LineSplitter('in.txt', 64);
      return [...splitter.push(bytes), ...splitter.end()].map((line) => textOf(line.bytes));
    },
    codes: ['RECORD_TOO_LARGE'],
    covered: nobody,
  },
  {
    kind: 'bytes',
    name: 'decodeReport',
    file: 'src/cli/load/reports.ts',
    seeds: lines(...REPORTS.map((report) => encodeReport(report).trim())),
    decode: (bytes) => decodeReport(textOf(bytes)),
    codes: ['INTERNAL'],
    covered: onPipe,
    reencode: (report: Report) => Buffer.from(encodeReport(report).trim()),
  },
  {
    kind: 'bytes',
    name: 'decodeMemberReport',
    file: 'src/cli/takeover/reports.ts',
    seeds: lines(...MEMBER_REPORTS.map((report) => encodeMemberReport(report).trim())),
    decode: (bytes) => decodeMemberReport(textOf(bytes)),
    codes: ['INTERNAL'],
    covered: onPipe,
    reencode: (report: MemberReport) => Buffer.from(encodeMemberReport(report).trim()),
  },
  word('integerIn', integerIn(0, Number.MAX_SAFE_INTEGER), ['16', '007']),
  word('numberIn', numberIn(0.5, 1e6), ['1.5', '16']),
  word('duration', duration, ['15s', '1.5h', '500ms', `${'1'.repeat(11)}m`]),
  word('instant', instant, ['1700000000000', '2024-02-29T12:00:00Z']),
  key('checkObjectKey', 'src/lib/object-key.ts', checkObjectKey, '0a1b/main/0001/0002'),
  key('checkObjectPrefix', 'src/lib/object-key.ts', checkObjectPrefix, '0a1b/main/'),
  key('checkMetaKey', 'src/ports/metastore-arguments.ts', checkMetaKey, 'streams/0a/refs/01'),
  key('checkMetaBound', 'src/ports/metastore-arguments.ts', checkMetaBound, 'streams/'),
];

interface BytesRecord {
  readonly body: Uint8Array;
  readonly headers: readonly (readonly [Uint8Array, Uint8Array])[];
  readonly timestamp: number | undefined;
}

function withBytes({ body, headers, timestamp }: AppendRecord): BytesRecord {
  const asBytes = (value: string | Uint8Array = '') =>
    Uint8Array.from(Buffer.from(value as string));
  const pairs = (headers ?? []).map(([name, value]) => [asBytes(name), asBytes(value)] as const);
  return { body: asBytes(body), headers: pairs, timestamp };
}

function jsonOf({ timestamp, ...record }: BytesRecord): Uint8Array {
  const text = recordToJson({ seqNum: 0, timestamp: timestamp ?? 0, ...record });
  return Buffer.from(timestamp === undefined ? text.replace('"timestamp":0,', '') : text);
}
