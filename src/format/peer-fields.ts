/** Writes and reads the fields of messages between engines; little endian, bounded by the message. */
import { Buffer } from 'node:buffer';
import { assert } from '../lib/assert.ts';
import { readUint64, utf8Decode, viewOf, writeUint64 } from './bytes.ts';
import { peerProtocolError } from './peer-frame.ts';

/** A wait without a deadline. */
const NO_TIMEOUT = 0xffff_ffff;

export class FieldWriter {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  at = 0;

  constructor(type: number, length: number) {
    this.bytes = Buffer.allocUnsafeSlow(1 + length);
    this.view = viewOf(this.bytes);
    this.uint8(type);
  }

  uint8(value: number): this {
    this.view.setUint8(this.at, value);
    this.at += 1;
    return this;
  }

  uint16(value: number): this {
    this.view.setUint16(this.at, value, true);
    this.at += 2;
    return this;
  }

  uint32(value: number): this {
    this.view.setUint32(this.at, value, true);
    this.at += 4;
    return this;
  }

  uint64(value: number): this {
    writeUint64(this.view, this.at, value);
    this.at += 8;
    return this;
  }

  timeout(millis: number | undefined): this {
    const most = NO_TIMEOUT - 1;
    return this.uint32(millis === undefined ? NO_TIMEOUT : Math.min(most, Math.ceil(millis)));
  }

  raw(bytes: Uint8Array): this {
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
    return this;
  }

  done(): Uint8Array {
    assert(this.at === this.bytes.length, 'a message is as long as it was measured');
    return this.bytes;
  }
}

/** Every read throws PEER_PROTOCOL when the message is too short or the value is none of ours. */
export class FieldReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  at = 1;

  constructor(message: Uint8Array) {
    this.#bytes = message;
    this.#view = viewOf(message);
  }

  get left(): number {
    return this.#bytes.length - this.at;
  }

  #step(length: number): number {
    if (length > this.left) throw peerProtocolError('message is cut off', { at: this.at });
    const at = this.at;
    this.at += length;
    return at;
  }

  uint8(): number {
    return this.#view.getUint8(this.#step(1));
  }

  uint16(): number {
    return this.#view.getUint16(this.#step(2), true);
  }

  uint32(): number {
    return this.#view.getUint32(this.#step(4), true);
  }

  uint64(): number {
    const value = readUint64(this.#view, this.#step(8));
    if (value === undefined) throw peerProtocolError('number is not safe', { at: this.at });
    return value;
  }

  timeout(): number | undefined {
    const millis = this.uint32();
    return millis === NO_TIMEOUT ? undefined : millis;
  }

  raw(length: number): Uint8Array {
    const at = this.#step(length);
    return this.#bytes.subarray(at, at + length);
  }

  text(length: number): string {
    const text = utf8Decode(this.raw(length));
    if (text === undefined) throw peerProtocolError('text is not UTF-8', { at: this.at });
    return text;
  }

  /** One of the values that are known. */
  pick<T>(values: readonly T[], what: string): T {
    const index = this.uint8();
    if (index >= values.length) throw peerProtocolError(what, { value: index });
    return values[index]!;
  }

  flags(known: number): number {
    const flags = this.uint8();
    if ((flags & ~known) !== 0) throw peerProtocolError('unknown flags', { flags });
    return flags;
  }

  end(): void {
    if (this.left > 0) throw peerProtocolError('bytes go on behind the message', { at: this.at });
  }
}
