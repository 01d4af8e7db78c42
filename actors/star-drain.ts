import { toEngineError } from '../src/lib/errors.ts';
import { linkedSignal } from '../src/lib/wait.ts';
import type { EpochActor } from './epoch.actor.ts';
import type { StarPorts } from './ports.ts';
import type { StreamActor } from './stream.actor.ts';

/** Copies beyond W are waited for so long at a close; then the next start fences the epoch. */
const COPIES_MILLIS = 2_000;

/** Streams that one drain finishes at a time. */
const FINISH_PARALLEL = 32;

/** Finishes every stream, busiest first, as far as the deadline allows. */
export async function finishStreams(
  streams: ReadonlyMap<string, StreamActor>,
  deadline: AbortSignal,
): Promise<void> {
  const queue = [...streams.values()].sort((a, b) => b.unabsorbedRecords - a.unabsorbedRecords);
  const next = async (): Promise<void> => {
    for (let actor = queue.shift(); actor !== undefined; actor = queue.shift()) {
      if (deadline.aborted) return;
      if (actor.isLeading) actor.finish('released');
      await actor.ended({ signal: deadline }).catch(() => undefined);
    }
  };
  await Promise.all(Array.from({ length: FINISH_PARALLEL }, next));
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
