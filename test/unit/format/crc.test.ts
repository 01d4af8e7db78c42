import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32, crc32Combine } from '../../../src/format/crc.ts';

describe('crc32', () => {
  it('is the CRC-32 of zlib: the check value of the catalogue', () => {
    expect(crc32(Buffer.from('123456789'))).toBe(0xcbf43926);
    expect(crc32(new Uint8Array(0))).toBe(0);
  });

  it('goes on from a seed', () => {
    const seed = crc32(Buffer.from('1234'));
    expect(crc32(Buffer.from('56789'), seed)).toBe(0xcbf43926);
  });

  it('reads views of shared memory', () => {
    const shared = new Uint8Array(new SharedArrayBuffer(32), 3, 9);
    shared.set(Buffer.from('123456789'));
    expect(crc32(shared)).toBe(0xcbf43926);
  });
});

describe('crc32Combine', () => {
  it('equals the checksum of both stretches', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 2_000 }),
        fc.uint8Array({ maxLength: 2_000 }),
        (first, second) => {
          const whole = crc32(Buffer.concat([first, second]));
          expect(crc32Combine(crc32(first), crc32(second), second.length)).toBe(whole);
        },
      ),
    );
  });

  it.each([1, 255, 256, 257, 65_535, 65_536, 16_777_215, 16_777_216, 16_909_060])(
    'carries through every digit of the length: %i bytes',
    (length) => {
      const second = new Uint8Array(length).fill(0xa5, 0, 1);
      const first = Buffer.from('front');
      expect(crc32Combine(crc32(first), crc32(second), length)).toBe(crc32(second, crc32(first)));
    },
  );

  it('is associative for lengths that no memory holds', () => {
    const length = fc.maxSafeNat().map((bytes) => Math.floor(bytes / 2));
    const checksum = fc.integer({ min: 0, max: 0xffff_ffff });
    fc.assert(
      fc.property(checksum, checksum, checksum, length, length, (a, b, c, bytesB, bytesC) => {
        const left = crc32Combine(crc32Combine(a, b, bytesB), c, bytesC);
        const right = crc32Combine(a, crc32Combine(b, c, bytesC), bytesB + bytesC);
        expect(left).toBe(right);
      }),
    );
  });

  it('changes nothing for an empty stretch on either side', () => {
    expect(crc32Combine(0xcbf43926, 0, 0)).toBe(0xcbf43926);
    expect(crc32Combine(0, 0xcbf43926, 9)).toBe(0xcbf43926);
  });
});
