import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import {
  commandOf,
  decodeRecords,
  encodeCommand,
  meteredBytes,
  type Bytes,
  type Headers,
} from '../../../src/format/records.ts';
import { anyCount, anyToken, encodeBatch } from './samples.ts';

const NUMBER = new Uint8Array(8);

describe('encodeCommand and commandOf', () => {
  it('round-trip through stored bytes', () => {
    const anyCommand = fc.oneof(
      anyToken.map((fencingToken) => ({ command: 'fence', fencingToken }) as const),
      anyCount.map((trimPoint) => ({ command: 'trim', trimPoint }) as const),
    );
    fc.assert(
      fc.property(anyCommand, (command) => {
        const bytes = encodeBatch([{ timestamp: 1, ...encodeCommand(command) }]);
        expect(commandOf(decodeRecords(bytes, 0, 1)[0]!)).toEqual(command);
      }),
    );
  });

  it('write the trim point in big-endian order', () => {
    const { body } = encodeCommand({ command: 'trim', trimPoint: 0x01_0203_0405 });
    expect([...body]).toEqual([0, 0, 0, 1, 2, 3, 4, 5]);
  });

  it('are metered like records', () => {
    const fence = encodeCommand({ command: 'fence', fencingToken: 'abc' });
    const trim = encodeCommand({ command: 'trim', trimPoint: 9 });
    expect(meteredBytes(fence.body, fence.headers)).toBe(8 + 2 + 5 + 3);
    expect(meteredBytes(trim.body, trim.headers)).toBe(8 + 2 + 4 + 8);
  });

  it('accept text and bytes from callers', () => {
    expect(commandOf({ headers: [['', 'fence']], body: 'é' })).toEqual({
      command: 'fence',
      fencingToken: 'é',
    });
    const headers: Headers = [[new Uint8Array(0), Buffer.from('trim')]];
    expect(commandOf({ headers, body: Buffer.from([0, 0, 0, 0, 0, 0, 1, 0]) })).toEqual({
      command: 'trim',
      trimPoint: 256,
    });
  });
});

describe('commandOf', () => {
  it.each<[string, Headers]>([
    ['no header', []],
    ['a named header', [['fence', 'fence']]],
    ['a header without a value', [['name', '']]],
  ])('takes a record with %s for data', (_, headers) => {
    expect(commandOf({ headers, body: '' })).toBeUndefined();
  });

  it.each<[string, Headers, Bytes]>([
    [
      'a second header',
      [
        ['', 'fence'],
        ['a', 'b'],
      ],
      '',
    ],
    [
      'a second header in front',
      [
        ['a', 'b'],
        ['', 'trim'],
      ],
      NUMBER,
    ],
    [
      'two commands',
      [
        ['', 'fence'],
        ['', 'fence'],
      ],
      '',
    ],
    ['another command', [['', 'reset']], ''],
    ['no command', [['', '']], ''],
    ['another case', [['', 'Fence']], ''],
    ['more behind the command', [['', 'fences']], ''],
    ['bytes that are no text', [['', Uint8Array.of(0xff)]], ''],
    ['a long value', [['', new Uint8Array(1_000)]], ''],
    ['a token of 37 bytes', [['', 'fence']], `${'a'.repeat(35)}é`],
    ['a token that is not UTF-8', [['', 'fence']], Uint8Array.of(0xc3)],
    ['a trim point of 7 bytes', [['', 'trim']], new Uint8Array(7)],
    ['a trim point of 9 bytes', [['', 'trim']], new Uint8Array(9)],
    ['a trim point in digits', [['', 'trim']], '7'],
  ])('refuses %s', (_, headers, body) => {
    const call = (): unknown => commandOf({ headers, body });
    expect(call).toThrow(EngineError);
    expect(call).toThrow(expect.objectContaining({ code: 'INVALID_RECORD', kind: 'invalid' }));
  });

  it('reads a trim point above all sequence numbers as the highest one', () => {
    const command = { command: 'trim', trimPoint: Number.MAX_SAFE_INTEGER };
    const headers: Headers = [['', 'trim']];
    expect(commandOf({ headers, body: new Uint8Array(8).fill(0xff) })).toEqual(command);
    expect(commandOf({ headers, body: Uint8Array.of(0, 0x20, 0, 0, 0, 0, 0, 0) })).toEqual(command);
  });

  it('leaves the body as it was', () => {
    const body = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 9);
    commandOf({ headers: [['', 'trim']], body });
    expect([...body]).toEqual([0, 0, 0, 0, 0, 0, 0, 9]);
  });
});

describe('encodeCommand', () => {
  it.each(['a'.repeat(37), '\ud800'])('refuses the token %j', (fencingToken) => {
    expect(() => encodeCommand({ command: 'fence', fencingToken })).toThrow('fencing token');
  });

  it.each([-1, 1.5, 2 ** 53])('refuses the trim point %d', (trimPoint) => {
    expect(() => encodeCommand({ command: 'trim', trimPoint })).toThrow('safe');
  });
});
