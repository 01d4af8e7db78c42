import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32 } from '../../../src/format/crc.ts';
import { encodePeerAppend } from '../../../src/format/peer-append.ts';
import {
  PEER_END_FRAME,
  PEER_MESSAGE_BYTES_MAX,
  peerFrameHead,
  PeerFrameSplitter,
} from '../../../src/format/peer-frame.ts';
import {
  decodePeerMessage,
  encodePeerMessage,
  PEER_TYPES,
  type PeerMessage,
  type SmallPeerMessage,
} from '../../../src/format/peer-message.ts';
import { encodePeerRecords } from '../../../src/format/peer-records.ts';
import { recordEncodedBytes, type StoredRecord } from '../../../src/format/records.ts';
import { EngineError } from '../../../src/lib/errors.ts';

const count = fc.maxSafeNat();
const call = fc.nat(0xffff_ffff);
const timeoutMillis = fc.option(fc.nat(0xffff_fffe), { nil: undefined });
const position = fc.record({ seqNum: count, timestamp: count });
const text = (maxLength: number) => fc.string({ unit: 'grapheme-ascii', maxLength });

const small: fc.Arbitrary<SmallPeerMessage> = fc.oneof(
  fc.record({
    type: fc.constant('hello' as const),
    purpose: fc.constantFrom('append' as const, 'read' as const),
    basin: text(48),
    name: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }).filter(fits(512)),
    fencingToken: fc.option(text(36), { nil: undefined }),
  }),
  fc.record({
    type: fc.constant('opened' as const),
    id: fc
      .uint8Array({ minLength: 16, maxLength: 16 })
      .map((id) => Buffer.from(id).toString('hex')),
    mode: fc.constantFrom('any' as const, 'fenced' as const),
  }),
  fc
    .tuple(call, fc.nat(), fc.integer({ min: 1, max: 1_000 }))
    .map(([id, startSeqNum, records]) => ({
      type: 'accepted' as const,
      call: id,
      startSeqNum,
      endSeqNum: startSeqNum + records,
    })),
  fc.record({
    type: fc.constant('acked' as const),
    call,
    start: position,
    end: position,
    tail: position,
  }),
  fc.record({ type: fc.constant('checkTail' as const), call, timeoutMillis }),
  fc.record({ type: fc.constant('tail' as const), call, tail: position }),
  fc.record({ type: fc.constant('cancel' as const), call }),
  fc.record({
    type: fc.constant('read' as const),
    timeoutMillis,
    start: fc.constantFrom('from' as const, 'tailOffset' as const, 'timestamp' as const),
    position: count,
    limit: fc.option(count, { nil: undefined }),
    live: fc.boolean(),
  }),
  fc.record({ type: fc.constant('started' as const), position: count }),
  fc.constant({ type: 'end' as const }),
);

const bytes = (maxLength: number) =>
  fc.oneof(
    fc.uint8Array({ maxLength }).map((value) => Buffer.from(value)),
    text(maxLength),
  );
const record = fc.record(
  {
    body: bytes(200),
    headers: fc.array(fc.tuple(bytes(20), bytes(20)), { maxLength: 4 }),
    timestamp: count,
  },
  { requiredKeys: [] },
);

function fits(bytesMax: number): (value: string) => boolean {
  return (value) => Buffer.byteLength(value) <= bytesMax;
}

const plain = (value: string | Uint8Array | undefined): string =>
  Buffer.from(typeof value === 'string' ? Buffer.from(value) : (value ?? [])).toString('hex');

function frame(message: Uint8Array): Uint8Array {
  return Buffer.concat([peerFrameHead(message), message]);
}

/** The messages, or the error: nothing else may come out of any bytes. */
function outcome(run: () => unknown): string {
  try {
    run();
    return 'ok';
  } catch (error) {
    return EngineError.is(error) ? error.code : `uncoded ${String(error)}`;
  }
}

describe('messages between engines', () => {
  it('come back as they were', () => {
    fc.assert(
      fc.property(small, (message) => {
        const wanted = Object.fromEntries(
          Object.entries(message).filter(
            ([key, value]) => key !== 'fencingToken' || value !== undefined,
          ),
        );
        expect(decodePeerMessage(encodePeerMessage(message))).toEqual(wanted);
      }),
    );
  });

  it('carry batches: bytes, headers, conditions, and timestamps or their absence', () => {
    const conditions = fc.record(
      { matchSeqNum: count, fencingToken: text(36) },
      { requiredKeys: [] },
    );
    const batches = fc.array(record, { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(call, timeoutMillis, conditions, batches, (id, timeout, given, records) => {
        const encodedBytes = records.reduce(
          (sum, { body = '', headers = [] }) => sum + recordEncodedBytes(body, headers),
          0,
        );
        const encoded = encodePeerAppend({
          type: 'append',
          call: id,
          timeoutMillis: timeout,
          records,
          encodedBytes,
          ...given,
        });
        const decoded = decodePeerMessage(encoded) as Extract<PeerMessage, { type: 'append' }>;
        expect(decoded).toMatchObject({ type: 'append', call: id, timeoutMillis: timeout });
        expect([decoded.matchSeqNum, decoded.fencingToken]).toEqual([
          given.matchSeqNum,
          given.fencingToken,
        ]);
        expect(decoded.records.map((r) => r.timestamp)).toEqual(records.map((r) => r.timestamp));
        expect(decoded.records.map((r) => plain(r.body))).toEqual(
          records.map((r) => plain(r.body)),
        );
        expect(decoded.records.map((r) => r.headers?.map((pair) => pair.map(plain)))).toEqual(
          records.map((r) => (r.headers ?? []).map((pair) => pair.map(plain))),
        );
      }),
    );
  });

  it('carry records that were read in runs without a gap, each in a frame that is allowed', () => {
    const stored = (seqNum: number, bodyBytes: number): StoredRecord => ({
      seqNum,
      timestamp: seqNum,
      headers: [],
      body: new Uint8Array(bodyBytes).fill(seqNum),
    });
    const records = [
      ...Array.from({ length: 300 }, (_, index) => stored(index, 3_000)),
      stored(500, 1024 * 1024 - 8),
      stored(501, 1024 * 1024 - 8),
      stored(900, 0),
    ];
    const back: StoredRecord[] = [];
    for (const message of encodePeerRecords(records)) {
      expect(message.length).toBeLessThanOrEqual(PEER_MESSAGE_BYTES_MAX);
      const decoded = decodePeerMessage(message);
      if (decoded.type !== 'records') throw new Error('no records');
      back.push(...decoded.records);
    }
    expect(back.map(({ seqNum }) => seqNum)).toEqual(records.map(({ seqNum }) => seqNum));
    expect(back.map(({ body }) => crc32(body))).toEqual(records.map(({ body }) => crc32(body)));
    expect([...encodePeerRecords([])]).toEqual([]);
  });

  it('carry errors: code, summary, side effects, details, when to retry', () => {
    const error = new EngineError('STREAM_HELD', 'another star leads this stream', {
      details: { name: 'orders', epoch: 7, live: true, nothing: undefined },
      sideEffects: 'possible',
      retryAfterMillis: 1_000,
      cause: new Error('never sent'),
    });
    const decoded = decodePeerMessage(encodePeerMessage({ type: 'failed', call: 3, error }));
    if (decoded.type !== 'failed') throw new Error('no error');
    expect(JSON.parse(JSON.stringify(decoded.error))).toEqual(JSON.parse(JSON.stringify(error)));
    expect(decoded.error.cause).toBeUndefined();
    expect(EngineError.is(decoded.error)).toBe(true);
  });

  it('cut errors that are long, and take codes of a later version for INTERNAL', () => {
    const error = new EngineError('INTERNAL', 's'.repeat(10_000), {
      details: Object.fromEntries(
        Array.from({ length: 50 }, (_, i) => [`k${i}`, 'v'.repeat(9_000)]),
      ),
    });
    const message = encodePeerMessage({ type: 'failed', call: 1, error });
    expect(message.length).toBeLessThan(20_000);
    expect(decodePeerMessage(message)).toMatchObject({ error: { code: 'INTERNAL' } });
    const unknown = Buffer.concat([
      Buffer.from([PEER_TYPES.failed, 0, 0, 0, 0]),
      Buffer.from(
        '{"code":"LATER","summary":"s","sideEffects":"none","details":{"__proto__":{"a":1}}}',
      ),
    ]);
    expect(decodePeerMessage(unknown)).toMatchObject({
      error: { code: 'INTERNAL', details: { peerCode: 'LATER' } },
    });
  });

  it('of any other bytes are PEER_PROTOCOL, whatever they are', () => {
    const typed = fc
      .tuple(fc.nat(15), fc.uint8Array({ maxLength: 120 }))
      .map(([type, rest]) => Buffer.concat([Uint8Array.of(type), rest]));
    fc.assert(
      fc.property(fc.oneof(typed, fc.uint8Array({ maxLength: 300 })), (message) => {
        expect(outcome(() => decodePeerMessage(message))).toMatch(/^(ok|PEER_PROTOCOL)$/);
      }),
      { numRuns: 3_000 },
    );
  });

  it('are refused when a bit is flipped, cut or added, or mean something of the same kind', () => {
    fc.assert(
      fc.property(small, fc.nat(), fc.nat(7), (message, at, bit) => {
        const encoded = Buffer.from(encodePeerMessage(message));
        expect(outcome(() => decodePeerMessage(encoded.subarray(0, -1)))).not.toMatch(/uncoded/);
        expect(outcome(() => decodePeerMessage(Buffer.concat([encoded, encoded])))).toBe(
          'PEER_PROTOCOL',
        );
        const index = at % encoded.length;
        encoded[index]! ^= 1 << bit;
        expect(outcome(() => decodePeerMessage(encoded))).toMatch(/^(ok|PEER_PROTOCOL)$/);
      }),
    );
  });

  it('of another version are told from damage', () => {
    const hello = encodePeerMessage({ type: 'hello', purpose: 'read', basin: 'b', name: 'n' });
    hello[1] = 2;
    expect(() => decodePeerMessage(hello)).toThrow(/unknown version.*version=2 known=1/);
  });
});

describe('frames', () => {
  it('take the memory of their bytes, however small the pieces are', () => {
    const message = new Uint8Array(200_000).fill(7);
    const splitter = new PeerFrameSplitter();
    const stream = frame(message);
    const before = process.memoryUsage();
    for (const byte of stream.subarray(0, -1)) splitter.push(Uint8Array.of(byte));
    const after = process.memoryUsage();
    const taken = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
    expect(splitter.heldBytes).toBe(message.length - 1);
    // A view a byte took a hundred times as much.
    expect(taken).toBeLessThan(16 * 1024 * 1024);
    expect(splitter.push(stream.subarray(-1))).toEqual([Buffer.from(message)]);
  });

  it('come back from whatever pieces they arrive in', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ minLength: 1, maxLength: 100 }), { maxLength: 10 }),
        fc.array(fc.nat(40), { maxLength: 60 }),
        (messages, cuts) => {
          const stream = Buffer.concat([...messages.map(frame), PEER_END_FRAME]);
          const splitter = new PeerFrameSplitter();
          const back: Uint8Array[] = [];
          let at = 0;
          for (const cut of [...cuts, stream.length]) {
            back.push(...splitter.push(stream.subarray(at, at + cut)));
            at += cut;
          }
          expect(back.map(plain)).toEqual(messages.map(plain));
          expect(splitter.hasEnded).toBe(true);
          expect(splitter.heldBytes).toBe(0);
        },
      ),
    );
  });

  it('that are too long are refused at their head, before anything is kept', () => {
    const head = Buffer.alloc(8);
    head.writeUInt32LE(PEER_MESSAGE_BYTES_MAX + 1);
    expect(outcome(() => new PeerFrameSplitter().push(head))).toBe('PEER_PROTOCOL');
    head.writeUInt32LE(0xffff_ffff);
    expect(outcome(() => new PeerFrameSplitter().push(head))).toBe('PEER_PROTOCOL');
  });

  it('never hold more than arrived', () => {
    const head = peerFrameHead(new Uint8Array(PEER_MESSAGE_BYTES_MAX));
    const splitter = new PeerFrameSplitter();
    splitter.push(head);
    splitter.push(new Uint8Array(10));
    expect(splitter.heldBytes).toBe(10);
  });

  it('that lost or changed a byte are refused', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 60 }),
        fc.nat(),
        fc.nat(7),
        (m, at, bit) => {
          const stream = Buffer.concat([frame(m), frame(m), PEER_END_FRAME]);
          stream[at % stream.length]! ^= 1 << bit;
          const splitter = new PeerFrameSplitter();
          let back: Uint8Array[] = [];
          const result = outcome(() => {
            back = splitter.push(stream);
          });
          // A longer length waits for bytes that never come; nothing wrong is handed on.
          expect(result === 'PEER_PROTOCOL' || (result === 'ok' && !splitter.hasEnded)).toBe(true);
          for (const message of back) expect(plain(message)).toBe(plain(m));
        },
      ),
    );
  });

  it('of noise are a coded error or nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 8 }), (chunks) => {
        const splitter = new PeerFrameSplitter();
        const result = outcome(() => chunks.forEach((chunk) => splitter.push(chunk)));
        expect(result).toMatch(/^(ok|PEER_PROTOCOL)$/);
      }),
    );
  });
});
