import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { beginFrame, openFrame, sealFrame } from '../../../../src/adapters/lmdb/frame.ts';

const key = 'stars/a';
const keyBytes = Buffer.from(key);

describe('frames', () => {
  it('carry a value and a version there and back', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.integer({ min: 0, max: 2 ** 47 }), (value, version) => {
        const frame = beginFrame(value);
        sealFrame(frame, keyBytes, version);
        expect(openFrame(frame, key, keyBytes)).toEqual({ version, value });
      }),
    );
  });

  it('have one layout for good', () => {
    const frame = beginFrame(Buffer.from('value'));
    sealFrame(frame, keyBytes, 0x0102_0304_0506);
    expect(frame.toString('hex')).toBe('0100060504030201d176c7fa76616c7565');
  });

  it('notice every flipped bit, every cut and another key', () => {
    const frame = beginFrame(Buffer.from('some value'));
    sealFrame(frame, keyBytes, 7);
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const damaged = Buffer.from(frame);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => openFrame(damaged, key, keyBytes)).toThrow('fails its checksum key=stars/a');
    }
    for (let length = 0; length < frame.length; length++) {
      expect(() => openFrame(frame.subarray(0, length), key, keyBytes)).toThrow('checksum');
    }
    expect(() => openFrame(frame, 'stars/b', Buffer.from('stars/b'))).toThrow('key=stars/b');
  });
});
