import { vi } from 'vitest';

/**
 * Tries until `check` does not throw: soon on an idle machine, whenever its turn comes on a busy one.
 */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 60_000, interval: 10 });
}
