/** A PUT that is late is sent once more, on another connection; the first decisive answer counts. */
import { EngineError } from '../../lib/errors.ts';
import type { Call } from '../calls/calls.ts';
import { Attempt } from './attempt.ts';
import type { BucketContext } from './context.ts';
import type { Failure } from './failure.ts';

/** What became of one PUT on the condition that the key is absent. */
export type PutVerdict =
  | { readonly kind: 'created' }
  /** There is an object, maybe of the same call. */
  | { readonly kind: 'held' }
  | Failure;

/** One request, which never throws. */
export type Put = (call: Call) => Promise<PutVerdict>;

/**
 * Both requests are the same bytes under the same key on the same condition, so at most one of them
 * creates the object, and it does not matter which. The one that loses is given up: its connection
 * ends, and this resolves when nothing is sent from the caller's memory any more. It may still arrive
 * at the server later, as any request may that was given up (A4). There it finds the object, or, once
 * that was deleted, creates one that nothing refers to: the same as after a time-out.
 */
export async function hedgedPut(
  { hedges, windows }: BucketContext,
  call: Call,
  sizeBytes: number,
  put: Put,
): Promise<PutVerdict> {
  const lateMillis = hedges.begin(sizeBytes);
  const begunAt = performance.now();
  const took = (): void => hedges.note(sizeBytes, performance.now() - begunAt);
  if (lateMillis === undefined) {
    const verdict = await put(call);
    if (verdict.kind === 'created') took();
    return verdict;
  }
  const first = new Attempt(call);
  call.onAbandoned = () => first.onAbandoned?.();
  const answer = put(first);
  const early = await within(lateMillis, answer);
  if (early !== undefined || call.abandoned !== undefined || windows.creates.isNarrowed) {
    const verdict = await answer;
    if (verdict.kind === 'created') took();
    return verdict;
  }
  if (!hedges.tryStart()) {
    const verdict = await answer;
    took();
    return verdict;
  }
  try {
    const second = new Attempt(call);
    call.onAbandoned = () => {
      first.onAbandoned?.();
      second.onAbandoned?.();
    };
    const verdict = await firstDecisive([answer, put(second)], (answered) => {
      if (answered === 1) hedges.decided();
    });
    await Promise.all([first, second].map((attempt) => attempt.giveUp(otherAnswered())));
    return verdict;
  } finally {
    // Of the first: what the second took is not how long creations take.
    took();
    hedges.end();
  }
}

/** Undefined when it is late. */
function within(millis: number, answer: Promise<PutVerdict>): Promise<PutVerdict | undefined> {
  return new Promise((resolve, reject) => {
    // After a stall of this process answers wait to be read: they come before the next turn.
    const late = (): void => void setImmediate(resolve, undefined);
    const timer = setTimeout(late, millis).unref();
    answer.then((verdict) => {
      clearTimeout(timer);
      resolve(verdict);
    }, reject);
  });
}

/** A request that failed decides nothing while another one is open. */
function firstDecisive(
  answers: readonly Promise<PutVerdict>[],
  onDecided: (index: number) => void,
): Promise<PutVerdict> {
  let isDecided = false;
  return new Promise((resolve, reject) => {
    const failures: Failure[] = [];
    answers.forEach((answer, index) => {
      answer.then((verdict) => {
        if (verdict.kind === 'created' || verdict.kind === 'held') {
          if (!isDecided) onDecided(index);
          isDecided = true;
          resolve(verdict);
        } else if (failures.push(verdict) === answers.length) resolve(gravest(failures));
      }, reject);
    });
  });
}

/** Refused is only what all were: one whose outcome is open may have stored it. */
function gravest(failures: readonly Failure[]): Failure {
  const weightOf = ({ kind, cause }: Failure): number => {
    if (kind === 'refused') return 0;
    return cause.sideEffects === 'possible' ? 2 : 1;
  };
  return failures.reduce((worst, one) => (weightOf(one) > weightOf(worst) ? one : worst));
}

function otherAnswered(): EngineError {
  return new EngineError('ABORTED', 'the same request was answered on another connection');
}
