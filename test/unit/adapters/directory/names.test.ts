import { describe, expect, it } from 'vitest';
import {
  isContinued,
  joined,
  keyPrefixOf,
  placeOf,
} from '../../../../src/adapters/directory/names.ts';
import { checkObjectKey } from '../../../../src/lib/object-key.ts';
import { Prng } from '../../../../src/lib/prng.ts';

const CHARACTERS = ['a', 'b', '0', '1', '.', '_', '-'];

function drawKey(prng: Prng): string {
  const segments = Array.from({ length: 1 + prng.below(4) }, () =>
    Array.from({ length: 1 + prng.below(prng.chance(0.3) ? 300 : 6) }, () =>
      prng.pick(CHARACTERS),
    ).join(''),
  );
  return segments.join('/').slice(0, 512);
}

/** Reads a place as the listing does. */
function keyOf(path: string): string {
  let name = '';
  let start: string | undefined;
  for (const part of path.split('/')) {
    name = joined(name, part);
    if (isContinued(part)) continue;
    if (start !== undefined) return start + name;
    start = keyPrefixOf(name);
    name = '';
  }
  throw new Error('a place ends in a file');
}

describe('places of objects', () => {
  it.each([
    ['a1b2/main/0000000000000007/0000000000000042', 'a1b2+main+0000000000000007/0000000000000042'],
    ['identity', '+/identity'],
    ['b/1', 'b/1'],
    ['b', '+/b'],
  ])('puts %s at %s', (key, path) => {
    const { directory, file } = placeOf(key);
    expect(`${directory}/${file}`).toBe(path);
    expect(keyOf(path)).toBe(key);
  });

  it('keeps all slots of an epoch in one directory', () => {
    const directories = new Set(
      Array.from({ length: 100 }, (_, slot) => placeOf(`a1b2/main/7/${slot}`).directory),
    );
    expect(directories.size).toBe(1);
  });

  it('maps keys to places of their own, names at most 255 bytes, and back', () => {
    const prng = new Prng(7);
    const places = new Map<string, string>();
    for (let round = 0; round < 3_000; round++) {
      const key = drawKey(prng);
      try {
        checkObjectKey(key);
      } catch {
        continue;
      }
      const { directory, file } = placeOf(key);
      const path = `${directory}/${file}`;
      const longest = Math.max(...path.split('/').map((name) => name.length));
      const isRight = keyOf(path) === key && longest <= 255 && (places.get(path) ?? key) === key;
      if (!isRight) expect.unreachable(`${key} lies at ${path}`);
      places.set(path, key);
    }
    expect(places.size).toBeGreaterThan(1_000);
    expect([...places.keys()].some((path) => path.includes(','))).toBe(true);
  });
});
