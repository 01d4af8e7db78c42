/** Runs a world until a promise of it settles. */
import type { World } from '../../src/testing/world.ts';

/** @throws SimulationFailure when the world stands still before, or when something breaks that nobody waits for. */
export async function runUntil<T>({ scheduler }: World, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = (): void => {
    isSettled = true;
  };
  promise.then(settled, settled);
  const onUnhandled = (reason: unknown): void => {
    const message = reason instanceof Error ? reason.message : String(reason);
    scheduler.fail('unhandled', message, reason);
  };
  process.on('unhandledRejection', onUnhandled);
  process.on('uncaughtException', onUnhandled);
  try {
    const end = await scheduler.run(() => isSettled);
    if (end === 'idle') throw scheduler.failure('idle', 'nothing is due any more');
    return await promise;
  } finally {
    process.off('unhandledRejection', onUnhandled);
    process.off('uncaughtException', onUnhandled);
  }
}
