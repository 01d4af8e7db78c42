import { backoffMillis } from '../src/lib/backoff.ts';
import { toEngineError } from '../src/lib/errors.ts';
import { sleep } from '../src/lib/wait.ts';
import type { StarPorts } from './ports.ts';

const RETRY = { firstMillis: 20, maxMillis: 2_000 };

/**
 * Repeats a read for as long as what it asks is unavailable; whoever waits for the result has a
 * deadline of its own.
 *
 * @throws whatever `run` throws that a repetition does not help, and ABORTED.
 */
export async function untilAvailable<T>(
  { clock, random }: Pick<StarPorts, 'clock' | 'random'>,
  signal: AbortSignal,
  run: () => Promise<T>,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await run();
    } catch (cause) {
      const error = toEngineError(cause);
      if (signal.aborted || !error.retryable) throw error;
    }
    await sleep(clock, backoffMillis(random, tries, RETRY), signal);
  }
}
