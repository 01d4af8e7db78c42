import { setMaxListeners } from 'node:events';

/** A signal that much work waits for at once: the warning about many listeners would be no leak. */
export function forManyListeners<T extends AbortController | AbortSignal>(target: T): T {
  setMaxListeners(0, target instanceof AbortController ? target.signal : target);
  return target;
}
