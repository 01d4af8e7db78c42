import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../../../src/adapters/system/random.ts';

describe('systemRandom', () => {
  const random = systemRandom();

  it('gives as many bytes of hex as asked for, never the same', () => {
    expect(random.hex(16)).toMatch(/^[0-9a-f]{32}$/);
    expect(random.hex(0)).toBe('');
    expect(new Set(Array.from({ length: 1_000 }, () => random.hex(8))).size).toBe(1_000);
  });

  it('gives fractions of one', () => {
    for (let i = 0; i < 1_000; i++) {
      const fraction = random.fraction();
      expect(fraction >= 0 && fraction < 1).toBe(true);
    }
  });
});
