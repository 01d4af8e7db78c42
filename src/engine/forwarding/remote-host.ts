import { encodePeerMessage } from '../../format/peer-message.ts';
import type { Clock } from '../../lib/clock.ts';
import { waitFor, type WaitOptions } from '../../lib/wait.ts';
import type { PeerChannel, Peers } from '../../ports/peers.ts';
import type { PeerMemory } from './peer-memory.ts';

/** What calls to other engines need of this one. */
export interface RemoteHost {
  readonly peers: Peers;
  readonly clock: Clock;
  readonly defaultTimeoutMillis: number | undefined;
  /** Bytes that are sent to an engine and not accepted by it yet. */
  memoryOf(address: string): PeerMemory;
}

/** Which stream, and under which token. */
export interface Greeting {
  readonly basin: string;
  readonly name: string;
  readonly fencingToken: string | undefined;
}

/** A channel within the caller's wait, whatever the transport does; one that comes late is dropped. */
export async function connect(
  { peers, clock }: RemoteHost,
  address: string,
  options: WaitOptions,
): Promise<PeerChannel> {
  const opening = peers.open(address, options);
  try {
    return await waitFor(clock, opening, options, 'connect');
  } catch (error) {
    opening.then(
      (late) => late.destroy(),
      () => undefined,
    );
    throw error;
  }
}

export function greet(purpose: 'append' | 'read', greeting: Greeting): Uint8Array {
  return encodePeerMessage({ type: 'hello', purpose, ...greeting });
}
