import { toEngineError, type EngineError } from '../src/lib/errors.ts';

/** Who receives the answers of effects: an actor of XState, mostly. */
export interface EventTarget<E> {
  send(event: E): void;
  getSnapshot?(): { readonly status: string };
}

/**
 * Runs one effect of a machine's state: its answer comes back as a domain event, its failure as
 * whatever `onFailure` makes of it. Nothing is sent once the signal has fired.
 */
export function runEffect<E>(
  target: EventTarget<E>,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<E | undefined>,
  onFailure: (error: EngineError) => E,
): void {
  // In a turn of its own: an effect may start another machine, which an action must not do.
  const answer = Promise.resolve().then(() => run(signal));
  answer.then(
    (event) => {
      if (event !== undefined && !signal.aborted) sendTo(target, event);
    },
    (cause: unknown) => {
      if (!signal.aborted) sendTo(target, onFailure(toEngineError(cause)));
    },
  );
}

/** Sends unless the actor has ended: what is over is not told any more. */
export function sendTo<E>(target: EventTarget<E>, event: E): void {
  const status = target.getSnapshot?.().status ?? 'active';
  if (status === 'active') target.send(event);
}
