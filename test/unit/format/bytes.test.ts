import { describe, expect, it } from 'vitest';
import {
  isName,
  isWellFormed,
  readId,
  readUint64,
  utf8Decode,
  utf8WriterOf,
  viewOf,
  writeId,
  writeUint64,
} from '../../../src/format/bytes.ts';

describe('64-bit numbers', () => {
  it.each([0, 1, 0xffff_ffff, 2 ** 32, 2 ** 32 + 1, 0x1_2345_6789_abcd, Number.MAX_SAFE_INTEGER])(
    'round-trip %i, little endian',
    (value) => {
      const bytes = new Uint8Array(9);
      writeUint64(viewOf(bytes), 1, value);
      expect(readUint64(viewOf(bytes), 1)).toBe(value);
      expect(viewOf(bytes).getBigUint64(1, true)).toBe(BigInt(value));
    },
  );

  it.each([2n ** 53n, 2n ** 63n, 2n ** 64n - 1n])('refuse %s, which is not safe', (value) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, value, true);
    expect(readUint64(view, 0)).toBeUndefined();
  });
});

describe('names', () => {
  it.each(['a', '!', '~', '.', '0', 'a'.repeat(63)])('may be %j', (name) => {
    expect(isName(name)).toBe(true);
  });

  it.each(['', '/', ' ', 'a b', '\n', 'a\n', '\x7f', 'é', 'a'.repeat(64)])(
    'may not be %j',
    (name) => {
      expect(isName(name)).toBe(false);
    },
  );
});

describe('identifiers', () => {
  it('round-trip', () => {
    const bytes = Buffer.alloc(20);
    writeId(bytes, 3, '0123456789abcdef0123456789abcdef');
    expect(readId(bytes, 3)).toBe('0123456789abcdef0123456789abcdef');
  });

  // Characters whose low bits are those of a digit, in every position of the text.
  it.each(['g', 'A', 'F', ' ', '\u0130', '\u0161', '\u8030', '\ud830'])(
    'may not hold %j',
    (unit) => {
      for (let index = 0; index < 32; index++) {
        const id = '0'.repeat(index) + unit + '0'.repeat(31 - index);
        expect(() => {
          writeId(new Uint8Array(16), 0, id);
        }).toThrow('hexadecimal');
      }
    },
  );
});

describe('text', () => {
  it('keeps a byte order mark and refuses what is not UTF-8', () => {
    expect(utf8Decode(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61))).toBe('\ufeffa');
    expect(utf8Decode(Uint8Array.of(0xc0, 0x80))).toBeUndefined();
    expect(utf8Decode(Uint8Array.of(0xed, 0xa0, 0x80))).toBeUndefined();
  });

  it('is well formed without lone surrogates', () => {
    expect(isWellFormed('a\u{1f600}b')).toBe(true);
    expect(isWellFormed('a\ud83d')).toBe(false);
    expect(isWellFormed('\ude00b')).toBe(false);
  });

  it('is written alike by the native writer and by the portable one', () => {
    const native = utf8WriterOf((Buffer.prototype as unknown as { utf8Write: never }).utf8Write);
    const portable = utf8WriterOf(undefined);
    expect(native).not.toBe(portable);
    for (const text of ['', 'plain', 'größe', '€', '\u{1f600}', 'a\ud83d', '\ude00b', '\ufeff']) {
      const first = new Uint8Array(40);
      const second = new Uint8Array(40);
      expect(native.call(first, text, 5)).toBe(Buffer.byteLength(text));
      expect(portable.call(second, text, 5)).toBe(Buffer.byteLength(text));
      expect(first).toEqual(second);
    }
  });
});
