import { forEachBounded } from '../src/lib/bounded.ts';
import { toEngineError, type EngineError } from '../src/lib/errors.ts';
import { linkedSignal } from '../src/lib/wait.ts';
import type { EpochActor } from './epoch.actor.ts';
import type { StarPorts } from './ports.ts';
import type { StreamActor } from './stream.actor.ts';

/** Copies beyond W are waited for so long at a close; then the next start fences the epoch. */
const COPIES_MILLIS = 2_000;

/** Streams that one drain finishes at a time. */
const FINISH_PARALLEL = 32;

/** How far a drain got; `inLimbo` ones are tried again until they are released or taken over. */
export interface DrainProgress {
  readonly streams: number;
  readonly finished: number;
  readonly inLimbo: number;
}

/**
 * Finishes every stream, busiest first, as far as the deadline allows. One whose Finish fails keeps
 * no other waiting.
 */
export async function finishStreams(
  streams: ReadonlyMap<string, StreamActor>,
  deadline: AbortSignal,
  options: {
    /** What callers of the streams are answered meanwhile. */
    readonly refusal?: () => EngineError;
    readonly onProgress?: ((progress: DrainProgress) => void) | undefined;
  } = {},
): Promise<DrainProgress> {
  const all = [...streams.values()].sort((a, b) => b.unabsorbedRecords - a.unabsorbedRecords);
  const stuck = new Set<StreamActor>();
  let finished = 0;
  const tell = (): DrainProgress => {
    const progress = { streams: all.length, finished, inLimbo: stuck.size };
    options.onProgress?.(progress);
    return progress;
  };
  await forEachBounded(all, FINISH_PARALLEL, async (actor) => {
    if (deadline.aborted) return;
    // An open under way ends first: only who leads can finish.
    await actor.opened({ signal: deadline }).catch(() => undefined);
    if (actor.isLeading) actor.finish('released', options.refusal?.());
    const how = await actor.departed({ signal: deadline }).catch(() => undefined);
    if (how === 'ended') finished++;
    else if (how === 'limbo') stuck.add(actor);
    tell();
  });
  await Promise.all(
    [...stuck].map(async (actor) => {
      const ended = await actor.ended({ signal: deadline }).then(
        () => true,
        () => false,
      );
      if (!ended) return;
      stuck.delete(actor);
      finished++;
      tell();
    }),
  );
  return { streams: all.length, finished, inLimbo: stuck.size };
}

/** Ends the epoch cleanly, as far as the deadline allows. */
export async function closeEpoch(
  { clock, log }: StarPorts,
  epoch: EpochActor,
  deadline: AbortSignal | undefined,
): Promise<void> {
  const limited = linkedSignal(clock, { signal: deadline, timeoutMillis: COPIES_MILLIS }, 'close');
  try {
    await epoch.close(limited.signal);
  } catch (cause) {
    const { code, message } = toEngineError(cause);
    log.warn({ code, message }, 'the epoch was left to the next start');
  } finally {
    limited.release();
  }
}
