/**
 * Frames of the connection between two engines: length, checksum, one message. Cuts a stream of
 * bytes back into messages; holds what has arrived and never more than a frame. Byte table:
 * docs/formats.md.
 */
import { Buffer } from 'node:buffer';
import { assert } from '../lib/assert.ts';
import { EngineError, type ErrorDetails } from '../lib/errors.ts';
import { viewOf } from './bytes.ts';
import { crc32 } from './crc.ts';

/** Of a message, its frame not counted: a batch of 1 MiB and what an encoding adds at the worst. */
export const PEER_MESSAGE_BYTES_MAX = 2 * 1024 * 1024;
export const PEER_FRAME_HEAD_BYTES = 8;

/** The frame that ends a channel: without it the bytes were cut off. */
export const PEER_END_FRAME: Uint8Array = new Uint8Array(PEER_FRAME_HEAD_BYTES);

/** The eight bytes that go in front of a message. */
export function peerFrameHead(message: Uint8Array): Uint8Array {
  assert(message.length >= 1 && message.length <= PEER_MESSAGE_BYTES_MAX, 'a message fits a frame');
  const head = new Uint8Array(PEER_FRAME_HEAD_BYTES);
  const view = viewOf(head);
  view.setUint32(0, message.length, true);
  view.setUint32(4, crc32(message), true);
  return head;
}

/** Memory for a message is taken as it arrives, from this size on twice as much each time. */
const FIRST_BYTES = 64 * 1024;

export class PeerFrameSplitter {
  /** What has arrived of a head, or of the message behind it: one piece of memory, not many small ones. */
  #part: Uint8Array = new Uint8Array(0);
  #held = 0;
  /** Length and checksum of the message that is arriving. */
  #head: { readonly length: number; readonly checksum: number } | undefined;

  #ended = false;

  /** The other side has ended in an orderly way: nothing follows. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Bytes of a frame that has not arrived whole. */
  get heldBytes(): number {
    return this.#held;
  }

  /**
   * The messages that are whole now, each in memory of its own.
   *
   * @throws EngineError PEER_PROTOCOL; what comes later means nothing then.
   */
  push(chunk: Uint8Array): Uint8Array[] {
    const messages: Uint8Array[] = [];
    let rest = chunk;
    for (;;) {
      if (this.#ended && rest.length > 0) throw peerProtocolError('bytes behind the end');
      const wanted = this.#head?.length ?? PEER_FRAME_HEAD_BYTES;
      const taken = Math.min(wanted - this.#held, rest.length);
      this.#take(rest.subarray(0, taken), wanted);
      rest = rest.subarray(taken);
      if (this.#held < wanted) return messages;
      const whole = this.#part;
      this.#part = new Uint8Array(0);
      this.#held = 0;
      if (this.#head === undefined) {
        if (Buffer.compare(whole, PEER_END_FRAME) === 0) this.#ended = true;
        else this.#head = headOf(whole);
        continue;
      }
      const { length, checksum } = this.#head;
      if (crc32(whole) !== checksum) throw peerProtocolError('checksum of a frame', { length });
      this.#head = undefined;
      messages.push(whole);
    }
  }

  /** Never more memory than is wanted, so that what is whole fills it exactly. */
  #take(bytes: Uint8Array, wanted: number): void {
    const end = this.#held + bytes.length;
    if (end > this.#part.length) {
      const grown = Buffer.allocUnsafeSlow(
        Math.min(wanted, Math.max(end, 2 * this.#part.length, FIRST_BYTES)),
      );
      grown.set(this.#part.subarray(0, this.#held));
      this.#part = grown;
    }
    this.#part.set(bytes, this.#held);
    this.#held = end;
  }
}

function headOf(bytes: Uint8Array): { readonly length: number; readonly checksum: number } {
  const view = viewOf(bytes);
  const length = view.getUint32(0, true);
  if (length < 1 || length > PEER_MESSAGE_BYTES_MAX) {
    throw peerProtocolError('length of a frame', { length, max: PEER_MESSAGE_BYTES_MAX });
  }
  return { length, checksum: view.getUint32(4, true) };
}

export function peerProtocolError(reason: string, details: ErrorDetails = {}): EngineError {
  return new EngineError('PEER_PROTOCOL', 'another engine sent what makes no sense', {
    details: { reason, ...details },
    sideEffects: 'possible',
  });
}
