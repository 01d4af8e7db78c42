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

export class PeerFrameSplitter {
  #chunks: Uint8Array[] = [];
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
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    const messages: Uint8Array[] = [];
    for (;;) {
      if (this.#ended && this.#held > 0) throw peerProtocolError('bytes behind the end');
      if (this.#head === undefined) {
        if (this.#held < PEER_FRAME_HEAD_BYTES) return messages;
        const head = this.#take(PEER_FRAME_HEAD_BYTES);
        if (Buffer.compare(head, PEER_END_FRAME) === 0) {
          this.#ended = true;
          continue;
        }
        this.#head = headOf(head);
      }
      const { length, checksum } = this.#head;
      if (this.#held < length) return messages;
      const message = this.#take(length);
      if (crc32(message) !== checksum) throw peerProtocolError('checksum of a frame', { length });
      this.#head = undefined;
      messages.push(message);
    }
  }

  #take(length: number): Uint8Array {
    const taken = Buffer.allocUnsafeSlow(length);
    let at = 0;
    let used = 0;
    while (at < length) {
      const chunk = this.#chunks[used]!;
      const part = Math.min(chunk.length, length - at);
      taken.set(part === chunk.length ? chunk : chunk.subarray(0, part), at);
      at += part;
      if (part < chunk.length) this.#chunks[used] = chunk.subarray(part);
      else used++;
    }
    this.#chunks.splice(0, used);
    this.#held -= length;
    return taken;
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
