/**
 * What engines ask of each other: ordered channels of messages from one engine to another, many over
 * one connection. Messages are bytes of at most `PEER_MESSAGE_BYTES_MAX`; what they mean is
 * src/format/peer-message.ts. Source: DESIGN "Ports".
 */
import type { WaitOptions } from '../lib/wait.ts';

export interface Peers {
  /**
   * Accepts channels of engines that show the token; all others are refused before anything they
   * send is kept. Called once.
   *
   * @throws EngineError INVALID_OPTION when the place to listen at cannot be had.
   */
  listen(accept: (channel: PeerChannel) => void): Promise<PeerListener>;

  /**
   * Opens a channel to the engine at the address, over the one connection to it. Nothing is sent
   * but the request itself.
   *
   * @throws EngineError PEER_UNAVAILABLE, PEER_REFUSED, ABORTED, DEADLINE_EXCEEDED
   */
  open(address: string, options?: WaitOptions): Promise<PeerChannel>;

  /** Connections of others to this engine, and of this engine to others. */
  readonly connections: { readonly accepted: number; readonly opened: number };

  /** Ends every channel and connection, and listens no more. Idempotent. */
  close(): Promise<void>;
}

export interface PeerListener {
  /** Where other engines reach this one, as it goes into the lease record. */
  readonly address: string;
}

export interface PeerChannel {
  /**
   * Hands a message over, at once and in order, and resolves when there is room for the next one:
   * who goes on without waiting lets memory grow. That it resolves says nothing about arrival.
   *
   * @throws EngineError PEER_UNAVAILABLE once the channel is over.
   */
  send(message: Uint8Array): Promise<void>;

  /**
   * The next message, in order; `undefined` when the other side has ended the channel. One call at a
   * time; who does not call makes the sender wait, once a window is full.
   *
   * A channel breaks when its connection does, or when the other side gives no sign of life for some
   * seconds.
   *
   * @throws EngineError PEER_UNAVAILABLE when the channel broke, PEER_PROTOCOL for bytes that are no
   *   messages. Stays so.
   */
  receive(): Promise<Uint8Array | undefined>;

  /** True once it broke, was destroyed, or ended on both sides. */
  readonly isOver: boolean;

  /** Sends no more; what was sent still arrives, and the other side may go on sending. */
  end(): void;

  /** Drops the channel at once, in both directions. Idempotent. */
  destroy(): void;
}
