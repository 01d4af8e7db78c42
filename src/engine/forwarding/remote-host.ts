import { encodePeerMessage } from '../../format/peer-message.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Peers } from '../../ports/peers.ts';
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

export function greet(purpose: 'append' | 'read', greeting: Greeting): Uint8Array {
  return encodePeerMessage({ type: 'hello', purpose, ...greeting });
}
