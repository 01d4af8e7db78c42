/** A read of a stream that this engine leads, served over a channel as fast as the other side takes it. */
import { decodePeerMessage, encodePeerMessage, type PeerRead } from '../../format/peer-message.ts';
import { peerProtocolError } from '../../format/peer-frame.ts';
import { encodePeerRecords } from '../../format/peer-records.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import { LeaderView } from '../../../actors/leader-view.ts';
import type { StarActor } from '../../../actors/star.actor.ts';
import type { StreamActor } from '../../../actors/stream.actor.ts';
import { readBatches, type ReadRequest } from '../../../actors/stream-reader.ts';

/** @throws EngineError as a read does; when the other side is gone the read just ends. */
export async function serveRead(
  channel: PeerChannel,
  star: StarActor,
  actor: StreamActor,
): Promise<void> {
  const first = await channel.receive();
  const asked = first === undefined ? undefined : decodePeerMessage(first);
  if (asked?.type !== 'read') throw peerProtocolError('a greeting of a read, and no read');
  star.ports.metrics.counter('peers.reads').add();
  const gone = new AbortController();
  void untilGone(channel).then(() => gone.abort());
  const request: ReadRequest = {
    ...requestOf(asked),
    signal: gone.signal,
    onStart: (position) => void channel.send(encodePeerMessage({ type: 'started', position })),
  };
  try {
    for await (const records of readBatches(star, new LeaderView(actor), request)) {
      for (const message of encodePeerRecords(records)) await channel.send(message);
    }
    await channel.send(encodePeerMessage({ type: 'end' }));
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

/** The other side says nothing more: whatever comes, or does not, ends the read. */
async function untilGone(channel: PeerChannel): Promise<void> {
  await channel.receive().catch(() => undefined);
}

function requestOf({ start, position, limit, live, timeoutMillis }: PeerRead): ReadRequest {
  return {
    ...(start === 'default' ? {} : { [start]: position }),
    ...(limit === undefined ? {} : { limit }),
    ...(timeoutMillis === undefined ? {} : { timeoutMillis }),
    live,
  };
}
