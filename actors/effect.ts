import { toEngineError, type EngineError } from '../src/lib/errors.ts';

/** Who receives the answers of effects. */
export interface EventTarget<E> {
  send(event: E): void;
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
      if (event !== undefined && !signal.aborted) target.send(event);
    },
    (cause: unknown) => {
      if (!signal.aborted) target.send(onFailure(toEngineError(cause)));
    },
  );
}

/** Sends unless the actor has ended: what is over is not told any more. */
export function sendTo<E>(
  actor: EventTarget<E> & { getSnapshot(): { readonly status: string } },
  event: E,
): void {
  if (actor.getSnapshot().status === 'active') actor.send(event);
}
