/** A read at the engine that leads the stream, over a channel of its own: its window is the memory. */
import {
  decodePeerMessage,
  encodePeerMessage,
  type PeerMessage,
  type PeerRead,
} from '../../format/peer-message.ts';
import { peerProtocolError } from '../../format/peer-frame.ts';
import type { StoredRecord } from '../../format/records.ts';
import { EngineError } from '../../lib/errors.ts';
import { givenUpError, throwIfAborted } from '../../lib/wait.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import type { ReadRequest } from '../../../actors/stream-reader.ts';
import { connect, greet, type Greeting, type RemoteHost } from './remote-host.ts';

export async function* readRemotely(
  host: RemoteHost,
  address: string,
  greeting: Greeting,
  request: ReadRequest,
): AsyncGenerator<readonly StoredRecord[], void, void> {
  const { signal, timeoutMillis } = request;
  throwIfAborted(signal, 'read');
  const channel = await connect(host, address, { signal, timeoutMillis });
  const onAbort = (): void => channel.destroy();
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    void channel.send(greet('read', greeting));
    void channel.send(encodePeerMessage(messageOf(request)));
    for (;;) {
      const message = await next(channel, address);
      if (message.type === 'started') request.onStart?.(message.position);
      else if (message.type === 'records') yield message.records;
      else if (message.type === 'end') return;
      else if (message.type === 'failed') throw message.error;
      else throw peerProtocolError('a message of the other side', { type: message.type });
    }
  } catch (error) {
    if (signal?.aborted === true) throw givenUpError(signal, 'read');
    throw error;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    channel.destroy();
  }
}

async function next(channel: PeerChannel, address: string): Promise<PeerMessage> {
  const message = await channel.receive();
  if (message !== undefined) return decodePeerMessage(message);
  throw new EngineError('PEER_UNAVAILABLE', 'the engine that led the stream ended the read', {
    details: { address },
  });
}

function messageOf(request: ReadRequest): PeerRead {
  const { from, tailOffset, timestamp, limit, live = false, timeoutMillis } = request;
  const rest = { type: 'read', timeoutMillis, limit, live } as const;
  if (from !== undefined) return { ...rest, start: 'from', position: from };
  if (tailOffset !== undefined) return { ...rest, start: 'tailOffset', position: tailOffset };
  if (timestamp !== undefined) return { ...rest, start: 'timestamp', position: timestamp };
  return { ...rest, start: 'default', position: 0 };
}
