import type { StreamActor } from './stream.actor.ts';

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
