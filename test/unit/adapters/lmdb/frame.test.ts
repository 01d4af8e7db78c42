import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { beginFrame, openFrame, sealFrame } from '../../../../src/adapters/lmdb/frame.ts';

const key = 'stars/a';
const keyBytes = Buffer.from(key);

describe('frames', () => {
  it('carry a value there and back', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.maxSafeNat(), (value, version) => {
        const frame = beginFrame(value);
        sealFrame(frame, keyBytes, version);
        expect(openFrame(frame, { key, keyBytes, version })).toEqual(value);
      }),
    );
  });

  it('have one layout for good', () => {
    const frame = beginFrame(Buffer.from('value'));
    sealFrame(frame, keyBytes, 7);
    expect(frame.toString('hex')).toBe('0100e6c64b0976616c7565');
  });

  it('notice every flipped bit, every cut, another key and another version', () => {
    const version = 7;
    const frame = beginFrame(Buffer.from('some value'));
    sealFrame(frame, keyBytes, version);
    const of = { key, keyBytes, version };
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const damaged = Buffer.from(frame);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => openFrame(damaged, of)).toThrow('fails its checksum key=stars/a');
    }
    for (let length = 0; length < frame.length; length++) {
      expect(() => openFrame(frame.subarray(0, length), of)).toThrow('checksum');
    }
    const other = { key: 'stars/b', keyBytes: Buffer.from('stars/b'), version };
    expect(() => openFrame(frame, other)).toThrow('key=stars/b');
    expect(() => openFrame(frame, { ...of, version: 8 })).toThrow('checksum');
  });
});
