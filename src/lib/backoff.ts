import type { Random } from './random.ts';

export interface BackoffOptions {
  readonly firstMillis: number;
  readonly maxMillis: number;
}

/** Full-jitter exponential back-off: the wait before attempt `attempt` (from 0), in milliseconds. */
export function backoffMillis(random: Random, attempt: number, options: BackoffOptions): number {
  const ceiling = Math.min(options.maxMillis, options.firstMillis * 2 ** Math.min(attempt, 30));
  return ceiling * (0.5 + random.fraction() * 0.5);
}
