/** Stored bytes outlive the code: each format is held to committed bytes, in both directions. */
import { describe, expect, it } from 'vitest';
import { parseFlight } from '../../../src/format/flight.ts';
import { encodeIdentity, parseIdentity } from '../../../src/format/identity.ts';
import { encodePoison, parsePoison } from '../../../src/format/poison.ts';
import { commandOf, decodeRecords } from '../../../src/format/records.ts';
import { inspectSlotObject } from '../../../src/format/slot-object.ts';
import {
  bitFlips,
  encodeFlight,
  FIELDS,
  golden,
  GOLDEN_BATCHES,
  GOLDEN_IDENTITY,
  GOLDEN_POISON,
  NONCE,
  STREAM_A,
  STREAM_B,
} from './samples.ts';

const flight = golden('flight-v1');
const poison = golden('poison-v1');
const identity = golden('identity-v1');

describe('flight, version 1', () => {
  it('is encoded to the golden bytes', () => {
    expect(encodeFlight(FIELDS, GOLDEN_BATCHES).object).toEqual(flight);
  });

  it('is read from the golden bytes', () => {
    const read = parseFlight(flight);
    if (!read.ok) throw new Error(read.reason);
    expect(read.preamble).toEqual({
      kind: 'flight',
      star: 'main',
      epoch: 7,
      slot: 0x1_0000_0002,
      nonce: NONCE,
      released: 0x1_0000_0001,
      headerBytes: 182,
      bodyBytes: 117,
      entryCount: 3,
      headerChecksum: 0x34b91baf,
      bodyChecksum: 0xea0dfdcf,
      alignBytes: 0,
    });
    const batch = { firstTimestamp: 1_700_000_000_000, lastTimestamp: 1_700_000_000_001 };
    expect(read.entries).toEqual([
      {
        streamId: STREAM_A,
        firstSeqNum: 41,
        count: 2,
        offset: 0,
        length: 44,
        ...batch,
        checksum: 0x407277d0,
      },
      {
        streamId: STREAM_B,
        firstSeqNum: 0,
        count: 2,
        offset: 44,
        length: 53,
        firstTimestamp: 1_700_000_000_002,
        lastTimestamp: 1_700_000_000_003,
        checksum: 0x9f4c53ea,
        delta: { fencingToken: 'tök-1', trimPoint: 40 },
      },
      {
        streamId: STREAM_A,
        firstSeqNum: 43,
        count: 1,
        offset: 97,
        length: 20,
        firstTimestamp: 1_700_000_000_004,
        lastTimestamp: 1_700_000_000_004,
        checksum: 0xa776675b,
        delta: { fencingToken: '' },
      },
    ]);
  });

  it('holds the records and commands that went in', () => {
    const read = parseFlight(flight);
    if (!read.ok) throw new Error(read.reason);
    const records = read.entries.flatMap(({ offset, length, firstSeqNum, count }) => {
      const start = read.bodyStart + offset;
      return decodeRecords(flight.subarray(start, start + length), firstSeqNum, count);
    });
    expect(records.map(({ seqNum }) => seqNum)).toEqual([41, 42, 0, 1, 43]);
    expect(records.map(({ timestamp }) => timestamp - 1_700_000_000_000)).toEqual([0, 1, 2, 3, 4]);
    expect(Buffer.from(records[0]!.body).toString()).toBe('hello');
    expect(records[0]!.headers).toEqual([]);
    expect(records[1]!.body).toEqual(Uint8Array.of(0, 255));
    const [name, value] = records[1]!.headers[0]!;
    expect([Buffer.from(name).toString(), Buffer.from(value).toString()]).toEqual([
      'kind',
      'bytes',
    ]);
    expect(records.map(commandOf)).toEqual([
      undefined,
      undefined,
      { command: 'fence', fencingToken: 'tök-1' },
      { command: 'trim', trimPoint: 40 },
      { command: 'fence', fencingToken: '' },
    ]);
  });

  it('is refused when any bit differs, also by a reader of slots that sees all of it', () => {
    for (const flipped of bitFlips(flight)) {
      expect(parseFlight(flipped).ok).toBe(false);
      expect(inspectSlotObject(flipped, flipped.length, FIELDS).kind).toBe('corrupt');
    }
  });

  it('is refused at every other length', () => {
    for (let length = 0; length < flight.length; length++) {
      expect(parseFlight(flight.subarray(0, length)).ok).toBe(false);
    }
    expect(parseFlight(Buffer.concat([flight, Buffer.alloc(1)])).ok).toBe(false);
  });
});

describe('poison, version 1', () => {
  it('is encoded to the golden bytes', () => {
    expect(encodePoison(GOLDEN_POISON)).toEqual(poison);
  });

  it('is read from the golden bytes', () => {
    const read = parsePoison(poison);
    if (!read.ok) throw new Error(read.reason);
    const { fencedBy, atMillis } = GOLDEN_POISON;
    expect(read.poison).toEqual({ fencedBy, atMillis });
    expect(read.preamble).toMatchObject({ kind: 'poison', star: 'main', epoch: 7, nonce: NONCE });
    expect(read.preamble.slot).toBe(0x1_0000_0003);
  });

  it('is refused when any bit differs', () => {
    for (const flipped of bitFlips(poison)) {
      expect(parsePoison(flipped).ok).toBe(false);
      expect(inspectSlotObject(flipped, flipped.length, GOLDEN_POISON).kind).toBe('corrupt');
    }
  });

  it('is refused at every other length', () => {
    for (let length = 0; length < poison.length; length++) {
      expect(parsePoison(poison.subarray(0, length)).ok).toBe(false);
    }
    expect(parsePoison(Buffer.concat([poison, Buffer.alloc(1)])).ok).toBe(false);
  });
});

describe('bucket identity, version 1', () => {
  it('is encoded to the golden bytes', () => {
    expect(encodeIdentity(GOLDEN_IDENTITY)).toEqual(identity);
  });

  it('is read from the golden bytes', () => {
    expect(parseIdentity(identity)).toEqual({ ok: true, identity: GOLDEN_IDENTITY });
  });

  it('is refused when any bit differs', () => {
    for (const flipped of bitFlips(identity)) expect(parseIdentity(flipped).ok).toBe(false);
  });

  it('is refused at every other length', () => {
    for (let length = 0; length < identity.length; length++) {
      expect(parseIdentity(identity.subarray(0, length)).ok).toBe(false);
    }
    expect(parseIdentity(Buffer.concat([identity, Buffer.alloc(1)])).ok).toBe(false);
  });
});
