import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Prng } from '../../src/lib/prng.ts';
import { chained, foldRecords } from './chain.ts';
import { encodeEvent } from './events.ts';
import { operationsOf } from './history.ts';
import { merged } from './merge.ts';
import { parseEvents } from './parse-events.ts';
import { randomHistory } from './random-histories.ts';
import { closed } from './recorder.ts';
import { xxh3 } from './xxh3.ts';

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('the hash of the chain', () => {
  it('has the values that the public tool pins', () => {
    const [foo, bar, baz] = ['foo', 'bar', 'baz'].map((text) => xxh3(utf8(text)));
    expect(foo).toBe(0xab6e5f64077e7d8an);
    const first = chained(0n, foo!);
    const second = chained(first, bar!);
    expect(first).toBe(0x4d2b003ee417c3a5n);
    expect(second).toBe(0x132e5d5dd7936eddn);
    expect(chained(second, baz!)).toBe(0x732ee99abc5002ffn);
    expect(foldRecords(0n, [foo!, bar!, baz!])).toBe(0x732ee99abc5002ffn);
  });

  // Of the reference implementation, for bytes 1, 8, 15, …
  it.each([
    [0, 0x2d06800538d394c2n, 0xcc1ca35a1b089c5cn],
    [1, 0xe12ef9d2eb86ceebn, 0xd2736045b9a2490dn],
    [3, 0x5c83885a0fb5d516n, 0x11365ce648dc7635n],
    [4, 0x244f36de481e7522n, 0x28d99f64fc66e532n],
    [8, 0x96cc97a6768fd7a9n, 0xcb86ef9e93670a9cn],
    [9, 0x4781d83b8e99d495n, 0x5ac558fc81143731n],
    [16, 0x913bd4a8038027a7n, 0x15858679e82eb84bn],
    [17, 0x2bf6f66973a6179dn, 0x389ca3975c0b4bd0n],
    [32, 0x5d503b89ae6f56c6n, 0xe995eb61991f6724n],
    [33, 0xb192963ede5ed5abn, 0x69a98e0d57a9353fn],
    [64, 0x13886553e7dc3fa3n, 0x3eff44fc6a2ec2dn],
    [65, 0x1c6516cc715d0a0en, 0xde672831c241f178n],
    [96, 0xdf49263b54999fcdn, 0x3a1bdd0b2fc6a871n],
    [97, 0x74f3d6ff540707b9n, 0x72f0d7eb74adb34n],
    [128, 0xc4399c7829d0628fn, 0x512b0e9e14050cdbn],
    [129, 0x8433489056750b32n, 0x4799dffb66b5964n],
    [130, 0x9c050a5f2d5acbf4n, 0x76673285aa63f8c3n],
    [143, 0xc95fa6ddfb5ab730n, 0xf09748e4a18ab76bn],
    [144, 0xd917ecabc86549b2n, 0x1f0c60f349d575b6n],
    [160, 0x13d314029718f121n, 0xe65e39cd51ef9793n],
    [239, 0x860862326046d50n, 0x28ce3a5544decc2dn],
    [240, 0x3c0bb96864e543a1n, 0x3a6140889d4ae6a9n],
  ])('of %i bytes is that of the reference', (length, plain, seeded) => {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 7 + 1) & 255);
    expect(xxh3(bytes)).toBe(plain);
    expect(xxh3(bytes, 0x0123456789abcdefn)).toBe(seeded);
  });
});

describe('lines of a history', () => {
  it.each([
    '{"event":{"Start":{"Append":{"num_records":2,"record_hashes":[11078887432134085092,12],"set_fencing_token":null,"fencing_token":null,"match_seq_num":2733}}},"client_id":2,"op_id":4984}',
    '{"event":{"Start":{"Append":{"num_records":1,"record_hashes":[18446744073709551615],"set_fencing_token":"1234567890123456789","fencing_token":"a\\"b,98765432109876543,","match_seq_num":null}}},"client_id":0,"op_id":1}',
    '{"event":{"Start":"Read"},"client_id":1,"op_id":2}',
    '{"event":{"Start":"CheckTail"},"client_id":1,"op_id":2}',
    '{"event":{"Finish":{"AppendSuccess":{"tail":2738}}},"client_id":2,"op_id":4984}',
    '{"event":{"Finish":{"ReadSuccess":{"tail":7,"stream_hash":9007199254740993}}},"client_id":2,"op_id":1}',
    '{"event":{"Finish":{"CheckTailSuccess":{"tail":7}}},"client_id":2,"op_id":1}',
    '{"event":{"Finish":"AppendDefiniteFailure"},"client_id":2,"op_id":1}',
    '{"event":{"Finish":"AppendIndefiniteFailure"},"client_id":2,"op_id":1}',
    '{"event":{"Finish":"ReadFailure"},"client_id":2,"op_id":1}',
    '{"event":{"Finish":"CheckTailFailure"},"client_id":2,"op_id":1}',
  ])('are read and written as the public tool does: %s', (line) => {
    expect(parseEvents(line).map(encodeEvent)).toEqual([line]);
  });

  it('come back as they were written', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0 }), (seed) => {
        const shape = { clients: 3, operations: 20, unknown: 0.2 };
        const events = randomHistory(new Prng(seed), shape);
        expect(parseEvents(events.map(encodeEvent).join('\n'))).toEqual(events);
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    ['no JSON', '{', 'line 2 is no JSON'],
    ['no event', '{"event":{},"client_id":1,"op_id":2}', 'line 2 is no event of a history'],
    [
      'another number of hashes',
      '{"event":{"Start":{"Append":{"num_records":2,"record_hashes":[1],"set_fencing_token":null,"fencing_token":null,"match_seq_num":null}}},"client_id":2,"op_id":1}',
      'line 2 is no event of a history',
    ],
    [
      'a hash of more than 64 bits',
      '{"event":{"Finish":{"ReadSuccess":{"tail":7,"stream_hash":18446744073709551616}}},"client_id":2,"op_id":1}',
      'line 2 is no event of a history',
    ],
    [
      'a negative tail',
      '{"event":{"Finish":{"AppendSuccess":{"tail":-1}}},"client_id":2,"op_id":1}',
      'line 2 is no event of a history',
    ],
  ])('are refused: %s', (_name, line, message) => {
    const first = '{"event":{"Start":"Read"},"client_id":0,"op_id":0}';
    expect(() => parseEvents(`${first}\n${line}\n`)).toThrow(message);
  });
});

describe('events that do not belong together', () => {
  const read = '{"event":{"Start":"Read"},"client_id":0,"op_id":0}';
  const failure = '{"event":{"Finish":"ReadFailure"},"client_id":0,"op_id":0}';
  it.each([
    ['operation 0 starts twice', [read, failure, read]],
    ['client 0 starts 1 before 0 ended', [read, read.replace('"op_id":0', '"op_id":1')]],
    ['operation 0 ends twice', [read, failure, failure]],
    ['operation 0 ends as it did not start', [failure]],
    ['operation 0 ends as it did not start', [read, failure.replace('Read', 'CheckTail')]],
    [
      'operation 0 ends as it did not start',
      [read, failure.replace('"client_id":0', '"client_id":1')],
    ],
  ])('are refused: %s', (message, lines) => {
    expect(() => operationsOf(parseEvents(lines.join('\n')))).toThrow(message);
  });
});

describe('one history of several processes', () => {
  it('has the order of their clock, calls first, and an end for every call', () => {
    const start = { call: { kind: 'read' }, clientId: 7_000_000, opId: 7_000_003 } as const;
    const result = { kind: 'readSuccess', tail: 0, streamHash: 0n } as const;
    const other = { call: { kind: 'checkTail' }, clientId: 9_000_000, opId: 9_000_000 } as const;
    const events = merged([
      { atNanos: 20n, event: { result, clientId: 7_000_000, opId: 7_000_003 } },
      { atNanos: 20n, event: other },
      { atNanos: 9n, event: start },
    ]);
    expect(closed(events)).toEqual([
      { ...start, clientId: 0, opId: 0 },
      { ...other, clientId: 1, opId: 1 },
      { result, clientId: 0, opId: 0 },
      { result: { kind: 'checkTailFailure' }, clientId: 1, opId: 1 },
    ]);
  });
});
