/**
 * Layout of a stored value: format (1 byte), zero (1), version (6, little endian), CRC-32 of key,
 * version and value (4), value. LMDB keeps no checksums of its own, so a page that rotted on disk
 * would otherwise be believed.
 */
import { crc32 } from 'node:zlib';
import { EngineError } from '../../lib/errors.ts';

const FORMAT = 1;
const VERSION_AT = 2;
const CHECKSUM_AT = 8;
const HEADER_BYTES = 12;

/** A copy of `value` with room for its header; the version is sealed in later. */
export function beginFrame(value: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + value.byteLength);
  frame[0] = FORMAT;
  frame[1] = 0;
  frame.set(value, HEADER_BYTES);
  return frame;
}

export function sealFrame(frame: Buffer, keyBytes: Uint8Array, version: number): void {
  frame.writeUIntLE(version, VERSION_AT, 6);
  frame.writeUInt32LE(checksum(frame, keyBytes), CHECKSUM_AT);
}

export interface Opened {
  readonly version: number;
  readonly value: Uint8Array;
}

/**
 * Splits a stored frame; the value is a view into it.
 *
 * @throws EngineError METASTORE_CORRUPT naming the key
 */
export function openFrame(frame: Buffer, key: string, keyBytes: Uint8Array): Opened {
  const valid =
    frame.length >= HEADER_BYTES &&
    frame[0] === FORMAT &&
    frame.readUInt32LE(CHECKSUM_AT) === checksum(frame, keyBytes);
  if (!valid) {
    throw new EngineError('METASTORE_CORRUPT', 'a metastore entry fails its checksum', {
      details: { key, bytes: frame.length },
    });
  }
  return {
    version: frame.readUIntLE(VERSION_AT, 6),
    value: new Uint8Array(
      frame.buffer,
      frame.byteOffset + HEADER_BYTES,
      frame.length - HEADER_BYTES,
    ),
  };
}

function checksum(frame: Buffer, keyBytes: Uint8Array): number {
  const head = crc32(frame.subarray(0, CHECKSUM_AT), crc32(keyBytes));
  return crc32(frame.subarray(HEADER_BYTES), head);
}
