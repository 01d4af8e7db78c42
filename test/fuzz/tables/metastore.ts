/** Decoders of what lies in the metastore, and of the files below it. */
import fc from 'fast-check';
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkFile } from '../../../src/adapters/lmdb/file-check.ts';
import { beginFrame, openFrame, sealFrame } from '../../../src/adapters/lmdb/frame.ts';
import { VersionSource } from '../../../src/adapters/lmdb/versions.ts';
import { checkLayout } from '../../../src/adapters/directory/layout.ts';
import { judgeOwner, ownerPrefix } from '../../../src/adapters/directory/temp-names.ts';
import type { DirectoryFileSystem } from '../../../src/adapters/directory/file-system.ts';
import { parseRow } from '../../../actors/ref-rows.ts';
import { INITIAL_STREAM_STATE } from '../../../src/protocol/records.ts';
import * as records from '../../../src/protocol/records.ts';
import { encodeLease, firstLease, parseLease } from '../../../src/protocol/lease.ts';
import { nameHex, nameOfHex, pad, refRowKey, refsPrefix } from '../../../src/protocol/keys.ts';
import { anyCount, anyId } from '../../unit/format/samples.ts';
import type { BytesDecoder } from '../decoder.ts';

const folder = mkdtempSync(join(tmpdir(), 'asterlog-fuzz-'));
const lmdbPath = join(folder, 'data.mdb');
globalThis.process.once('exit', () => {
  rmSync(folder, { recursive: true, force: true });
});

const ID = '0a'.repeat(16);
const attempt = '0123456789abcdef';
const tenure = { star: 'main', incarnation: ID, class: 'express', epoch: 3 } as const;
const span = {
  seq: 5,
  count: 2,
  slot: 1,
  offset: 216,
  length: 26,
  checksum: 7,
  first: 10,
  last: 20,
};
const row = {
  start: 5,
  end: 7,
  star: 'main',
  epoch: 3,
  set: ID,
  spans: [span],
  state: INITIAL_STREAM_STATE,
  builder: { star: 'main', incarnation: ID },
  mark: { tenure, tail: 7 },
  attempt,
};
const epoch = {
  star: 'main',
  epoch: 3,
  class: 'express',
  set: ID,
  buckets: 3,
  copyQuorum: 2,
  window: 16,
  incarnation: ID,
  nonce: ID,
  state: 'fenced',
  checkpoint: 4,
  rewritten: 0,
  trimmed: 0,
  swept: 0,
  tailSwept: false,
  cut: 9,
  fencedBy: { star: 'other', incarnation: ID, atMillis: 1 },
  attempt,
};
const config = { mode: 'any', storageClass: 'express', timestamping: 'arrival', uncapped: false };

const SCHEMAS = {
  chainRecord: [{ nextEpoch: 4, heads: { express: 3 }, attempt }],
  epochRecord: [epoch, { ...epoch, cut: undefined, fencedBy: undefined, state: 'open' }],
  setRecord: [{ set: ID, metastore: ID, buckets: [{ bucket: ID, name: 'a' }], attempt }],
  nameRecord: [{ stream: ID, attempt }],
  streamRecord: [
    { stream: ID, name: 'orders', basin: 'default', createdAtMillis: 1, config, attempt },
  ],
  writerRecord: [
    { kind: 'tenure', tenure, attempt },
    { kind: 'released', tenure, tail: 7, attempt },
    { kind: 'deleted', attempt },
  ],
  limboRecord: [
    {
      star: 'main',
      incarnation: ID,
      epoch: 3,
      stream: ID,
      name: 'orders',
      basin: 'default',
      sinceMillis: 1,
      code: 'INTERNAL',
      message: 'm',
      attempt,
    },
  ],
  refRow: [row],
  metastoreIdRecord: [{ metastore: ID, attempt }],
} as const;

const anyAttempt = anyId.map((id) => id.slice(16));
const anyStar = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,62}$/);
const anyTenure = fc.record({
  star: anyStar,
  incarnation: anyId,
  class: fc.constant('express'),
  epoch: anyCount,
});
const SOUND: Partial<Record<keyof typeof SCHEMAS, fc.Arbitrary<unknown>>> = {
  nameRecord: fc.record({ stream: anyId, attempt: anyAttempt }),
  writerRecord: fc.oneof(
    fc.record({ kind: fc.constant('tenure'), tenure: anyTenure, attempt: anyAttempt }),
    fc.record({
      kind: fc.constant('released'),
      tenure: anyTenure,
      tail: anyCount,
      attempt: anyAttempt,
    }),
  ),
  metastoreIdRecord: fc.record({ metastore: anyId, attempt: anyAttempt }),
};

const byStore = { by: 'the store: the embedded one frames each value with a checksum (openFrame)' };
const CORRUPT = ['METASTORE_CORRUPT'] as const;
const { encodeRecordValue, parseRecordValue } = records;

const process = { bootId: 'boot', hostName: 'host', pidNamespace: 'ns', pid: 1, startTime: '5' };
const lease = firstLease(
  { incarnation: ID, address: 'a:1', timeoutMillis: 15_000, process },
  attempt,
);

const frameOf = (text: string): Uint8Array => {
  const frame = beginFrame(Buffer.from(text));
  sealFrame(frame, Buffer.from('stars/a'), 7);
  return Uint8Array.from(frame);
};

const self = { bootId: 'boot', hostName: 'host', pidNamespace: 'ns', pid: 1, startTime: '5' };
const processes = { self: () => self, judge: () => 'dead' as const };

export const METASTORE_DECODERS: readonly BytesDecoder[] = [
  ...Object.entries(SCHEMAS).map(([name, values]): BytesDecoder => ({
    kind: 'bytes',
    name: 'parseRecordValue',
    variant: name,
    file: 'src/protocol/records.ts',
    seeds: values.map(encodeRecordValue),
    sound: SOUND[name as keyof typeof SCHEMAS]?.map(encodeRecordValue),
    decode: (bytes) => parseRecordValue(records[name as keyof typeof SCHEMAS], 'a/key', bytes),
    codes: CORRUPT,
    covered: byStore,
    reencode: encodeRecordValue,
  })),
  {
    kind: 'bytes',
    name: 'attemptOf',
    file: 'src/protocol/records.ts',
    seeds: [encodeRecordValue({ attempt }), encodeRecordValue(row)],
    decode: records.attemptOf,
    codes: [],
    covered: byStore,
  },
  {
    kind: 'bytes',
    name: 'parseLease',
    file: 'src/protocol/lease.ts',
    seeds: [encodeLease(lease)],
    decode: (bytes) => parseLease('stars/main', bytes),
    codes: CORRUPT,
    covered: byStore,
    reencode: encodeLease,
  },
  {
    kind: 'bytes',
    name: 'parseRow',
    file: 'actors/ref-rows.ts',
    seeds: [encodeRecordValue(row)],
    decode: (value) => parseRow(ID, { key: refRowKey(ID, 5), value, version: 1 }).row,
    codes: CORRUPT,
    covered: byStore,
    reencode: encodeRecordValue,
  },
  {
    kind: 'bytes',
    name: 'parseRow',
    variant: 'its key',
    file: 'actors/ref-rows.ts',
    seeds: [Buffer.from(pad(5))],
    decode: (key) =>
      parseRow(ID, {
        key: refsPrefix(ID) + Buffer.from(key).toString('latin1'),
        value: encodeRecordValue(row),
        version: 1,
      }),
    codes: CORRUPT,
    covered: 'all',
  },
  {
    kind: 'bytes',
    name: 'nameOfHex',
    file: 'src/protocol/keys.ts',
    seeds: [Buffer.from(nameHex('gr\u00fc\u00dfe'))],
    decode: (hex) => nameOfHex(Buffer.from(hex).toString('latin1')),
    codes: [],
    covered: { by: 'nothing: it only words a message' },
  },
  {
    kind: 'bytes',
    name: 'openFrame',
    file: 'src/adapters/lmdb/frame.ts',
    seeds: [frameOf('{"attempt":"00"}'), frameOf('')],
    sound: fc.string({ unit: 'binary', maxLength: 300 }).map(frameOf),
    decode: (bytes) => {
      const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
      return openFrame(frame, { key: 'stars/a', keyBytes: Buffer.from('stars/a'), version: 7 });
    },
    codes: CORRUPT,
    covered: 'all',
  },
  {
    kind: 'bytes',
    name: 'VersionSource',
    file: 'src/adapters/lmdb/versions.ts',
    seeds: [storedCounter()],
    decode: (bytes) => versionsFrom(Buffer.from(bytes)).next(),
    codes: CORRUPT,
    covered: 'all',
  },
  {
    kind: 'bytes',
    name: 'checkFile',
    file: 'src/adapters/lmdb/file-check.ts',
    seeds: [lmdbFile()],
    decode: (bytes) => {
      writeFileSync(lmdbPath, bytes);
      checkFile(lmdbPath, 'present');
    },
    codes: CORRUPT,
    covered: { by: 'nothing: it keeps LMDB from files that would end the process' },
  },
  {
    kind: 'bytes',
    name: 'checkLayout',
    file: 'src/adapters/directory/layout.ts',
    seeds: [Buffer.from('{"asterlog":"bucket","layoutVersion":1}\n')],
    decode: (bytes) => checkLayout(fileSystemOf(bytes), '/bucket'),
    codes: ['LAYOUT_VERSION'],
    covered: { by: 'nothing: the version is all that is read of it' },
  },
  {
    kind: 'bytes',
    name: 'judgeOwner',
    file: 'src/adapters/directory/temp-names.ts',
    seeds: [Buffer.from(`${ownerPrefix(self)}.0f.a1`)],
    decode: (name) => judgeOwner(Buffer.from(name).toString('latin1'), processes),
    codes: [],
    covered: { by: 'nothing: a name of another making is nobody\u2019s' },
  },
];

/** A source whose database holds the counter and nothing else. */
function versionsFrom(
  stored: Buffer | undefined,
  put = (_bytes: Buffer): void => undefined,
): VersionSource {
  return new VersionSource({
    transactionSync: (run: () => number) => run(),
    getBinary: () => stored,
    putSync: (_key: Buffer, bytes: Buffer) => put(bytes),
  } as unknown as ConstructorParameters<typeof VersionSource>[0]);
}

function storedCounter(): Uint8Array {
  let stored: Buffer = Buffer.alloc(0);
  versionsFrom(undefined, (bytes) => {
    stored = bytes;
  }).next();
  return Uint8Array.from(stored);
}

function fileSystemOf(bytes: Uint8Array): DirectoryFileSystem {
  const facts = { identity: 'x', sizeBytes: bytes.length, linkCount: 1 };
  return {
    open: () => Promise.resolve(1),
    close: () => Promise.resolve(),
    stat: () => Promise.resolve(facts),
    read: (_fd: number, into: Uint8Array, position: number) => {
      const part = bytes.subarray(position, position + into.length);
      into.set(part);
      return Promise.resolve(part.length);
    },
  } as unknown as DirectoryFileSystem;
}

/** The two pages that LMDB begins with, as its format has them. */
function lmdbFile(): Uint8Array {
  const pageBytes = 512;
  const file = Buffer.alloc(4 * pageBytes);
  for (const [page, transaction] of [1n, 2n].entries()) {
    const at = page * pageBytes;
    file.writeUInt16LE(0x08, at + 18);
    file.writeUInt32LE(0xbeefc0de, at + 24);
    file.writeUInt32LE(2, at + 28);
    file.writeUInt32LE(pageBytes, at + 48);
    file.writeBigUInt64LE(0xffff_ffff_ffff_ffffn, at + 88);
    file.writeBigUInt64LE(3n, at + 136);
    file.writeBigUInt64LE(transaction, at + 152);
  }
  return file;
}
