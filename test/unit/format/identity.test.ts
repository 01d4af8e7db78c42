import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32 } from '../../../src/format/crc.ts';
import {
  encodeIdentity,
  IDENTITY_READ_BYTES,
  identityKey,
  parseIdentity,
  type BucketIdentity,
} from '../../../src/format/identity.ts';
import { anyCount, anyName, golden, GOLDEN_IDENTITY, patched } from './samples.ts';

const identity = golden('identity-v1');

const anyIdentity: fc.Arbitrary<BucketIdentity> = fc.record({
  bucketId: anyName,
  bucketIndex: fc.nat(0xffff),
  setId: anyName,
  metastoreId: anyName,
  createdAtMillis: anyCount,
});

function reseal(object: Uint8Array): Uint8Array {
  const end = object.length - 4;
  new DataView(object.buffer, object.byteOffset).setUint32(
    end,
    crc32(object.subarray(0, end)),
    true,
  );
  return object;
}

describe('encodeIdentity and parseIdentity', () => {
  it('round-trip within the bytes of one read', () => {
    fc.assert(
      fc.property(anyIdentity, (fields) => {
        const object = encodeIdentity(fields);
        expect(object.length).toBeLessThan(IDENTITY_READ_BYTES);
        expect(parseIdentity(object)).toEqual({ ok: true, identity: fields });
      }),
    );
  });

  it.each<[string, Partial<BucketIdentity>]>([
    ['an empty bucket id', { bucketId: '' }],
    ['a long set id', { setId: 'a'.repeat(64) }],
    ['a metastore id with a slash', { metastoreId: 'a/b' }],
    ['a very long metastore id', { metastoreId: 'a'.repeat(300) }],
    ['a negative index', { bucketIndex: -1 }],
    ['a large index', { bucketIndex: 0x1_0000 }],
    ['half an index', { bucketIndex: 0.5 }],
    ['a negative time', { createdAtMillis: -1 }],
  ])('refuse to write %s', (_, change) => {
    expect(() => encodeIdentity({ ...GOLDEN_IDENTITY, ...change })).toThrow();
  });
});

describe('parseIdentity', () => {
  it.each<[string, number, number[], string]>([
    ['another magic', 7, [0x45], 'not a bucket identity'],
    ['a later version', 8, [2], 'unknown version'],
    ['a byte in the padding', 15, [1], 'padding is not zero'],
    ['an unsafe time', 23, [1], 'number is not a safe integer'],
    ['names that are longer', 12, [12], 'name lengths'],
    ['names that are shorter', 14, [6], 'name lengths'],
    ['an empty bucket id', 12, [0, 17, 7], 'identity is not made of names'],
    ['an empty metastore id', 12, [11, 13, 0], 'identity is not made of names'],
    ['a slash in a name', 24, [0x2f], 'identity is not made of names'],
  ])('refuses %s even with a fitting checksum', (_, offset, values, reason) => {
    expect(parseIdentity(reseal(patched(identity, offset, values)))).toEqual({ ok: false, reason });
  });

  it('refuses random bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => {
        expect(parseIdentity(noise).ok).toBe(false);
      }),
    );
  });

  it('accepts only what encodes to the same bytes again', () => {
    const offset = fc.integer({ min: 10, max: identity.length - 5 });
    fc.assert(
      fc.property(offset, fc.uint8Array({ minLength: 1, maxLength: 8 }), (at, noise) => {
        const values = [...noise].slice(0, identity.length - 4 - at);
        const object = reseal(patched(identity, at, values));
        const read = parseIdentity(object);
        if (read.ok) expect(encodeIdentity(read.identity)).toEqual(object);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('identityKey', () => {
  it('is a key of its own for each set', () => {
    expect(identityKey('set-77')).toBe('identity/set-77');
  });

  it.each(['', 'a/b', 'A', 'a'.repeat(64), 'a b'])('refuses %j', (setId) => {
    expect(() => identityKey(setId)).toThrow('key');
  });
});
