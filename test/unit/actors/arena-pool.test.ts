import { describe, expect, it } from 'vitest';
import { ArenaPool, type Arena } from '../../../actors/arena-pool.ts';

const KIB = 1024;
const STANDARD = 512 * KIB;
const LIMIT = 4 * 1024 * KIB;

function poolOf(limitBytes = LIMIT): ArenaPool {
  return new ArenaPool(limitBytes, STANDARD);
}

function acquired(pool: ArenaPool, sizeBytes: number): Arena {
  const arena = pool.acquire(sizeBytes);
  if (arena === undefined) throw new Error('the pool is exhausted');
  return arena;
}

/** Keeps the arena as a flight does whose records were answered. */
function cacheIn(pool: ArenaPool, arena: Arena, onEvict: () => void = () => undefined): void {
  pool.cache({
    evict: () => {
      onEvict();
      pool.release(arena);
    },
  });
}

describe('ArenaPool', () => {
  it('answers the standard size for every batch that fits into it', () => {
    const pool = poolOf();
    expect(acquired(pool, 1).sizeBytes).toBe(STANDARD);
    expect(acquired(pool, STANDARD).sizeBytes).toBe(STANDARD);
    expect(pool.usedBytes).toBe(2 * STANDARD);
  });

  it('uses an arena again, also for another batch beyond the standard size', () => {
    const pool = poolOf();
    const large = acquired(pool, 900 * KIB);
    expect(large.sizeBytes).toBeGreaterThanOrEqual(900 * KIB);
    pool.release(large);
    expect(acquired(pool, 901 * KIB)).toBe(large);
    expect(pool.peakBytes).toBe(large.sizeBytes);
  });

  it('never holds more than its limit and says when it is exhausted', () => {
    const pool = poolOf();
    const arenas: Arena[] = [];
    for (let arena = pool.acquire(1); arena !== undefined; arena = pool.acquire(1)) {
      arenas.push(arena);
    }
    expect(arenas).toHaveLength(LIMIT / STANDARD);
    pool.release(arenas.pop()!);
    expect(pool.acquire(1)).toBeDefined();
    expect(pool.acquire(1)).toBeUndefined();
    expect(pool.peakBytes).toBe(LIMIT);
  });

  it('gives a small batch a larger arena rather than none', () => {
    const pool = poolOf(1024 * KIB);
    const large = acquired(pool, 1024 * KIB);
    pool.release(large);
    expect(acquired(pool, 1)).toBe(large);
  });

  it('gives up small arenas for a large one', () => {
    const pool = poolOf(1024 * KIB);
    for (const arena of [acquired(pool, 1), acquired(pool, 1)]) pool.release(arena);
    expect(acquired(pool, 1000 * KIB).sizeBytes).toBe(1024 * KIB);
    expect(pool.usedBytes).toBe(1024 * KIB);
  });

  it('gives up what is kept for readers, the oldest first, only when memory is short', () => {
    const pool = poolOf(1024 * KIB);
    const evicted: string[] = [];
    cacheIn(pool, acquired(pool, 1), () => evicted.push('first'));
    cacheIn(pool, acquired(pool, 1), () => evicted.push('second'));
    expect(evicted).toEqual([]);
    acquired(pool, 1);
    expect(evicted).toEqual(['first']);
    acquired(pool, 1);
    expect(evicted).toEqual(['first', 'second']);
    expect(pool.acquire(1)).toBeUndefined();
  });

  it('tells when memory became available', () => {
    const pool = poolOf();
    let told = 0;
    pool.onRoom = () => told++;
    pool.release(acquired(pool, 1));
    expect(told).toBe(1);
    cacheIn(pool, acquired(pool, 1));
    expect(told).toBe(2);
  });
});
