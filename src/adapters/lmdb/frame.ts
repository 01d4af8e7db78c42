/**
 * Layout of a stored value: format (1 byte), zero (1), CRC-32 of key, version and value (4, little
 * endian), value. LMDB keeps no checksums of its own, so a page that rotted on disk would otherwise
 * be believed.
 */
import { crc32 } from 'node:zlib';
import { EngineError } from '../../lib/errors.ts';

const FORMAT = 1;
const CHECKSUM_AT = 2;
const HEADER_BYTES = 6;

/** A copy of `value` with room for its header, to be sealed once the version is known. */
export function beginFrame(value: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + value.byteLength);
  frame[0] = FORMAT;
  frame[1] = 0;
  frame.set(value, HEADER_BYTES);
  return frame;
}

export function sealFrame(frame: Buffer, keyBytes: Uint8Array, version: number): void {
  frame.writeUInt32LE(checksum(frame, keyBytes, version), CHECKSUM_AT);
}

/**
 * The value in a stored frame, as a view into it.
 *
 * @throws EngineError METASTORE_CORRUPT naming the key
 */
export function openFrame(
  frame: Buffer,
  of: { readonly key: string; readonly keyBytes: Uint8Array; readonly version: number },
): Uint8Array {
  const valid =
    frame.length >= HEADER_BYTES &&
    frame[0] === FORMAT &&
    frame[1] === 0 &&
    frame.readUInt32LE(CHECKSUM_AT) === checksum(frame, of.keyBytes, of.version);
  if (!valid) {
    throw new EngineError('METASTORE_CORRUPT', 'a metastore entry fails its checksum', {
      details: { key: of.key, bytes: frame.length },
    });
  }
  const { buffer, byteOffset, length } = frame;
  return new Uint8Array(buffer, byteOffset + HEADER_BYTES, length - HEADER_BYTES);
}

const versionBytes = Buffer.alloc(8);

function checksum(frame: Buffer, keyBytes: Uint8Array, version: number): number {
  versionBytes.writeDoubleLE(version);
  return crc32(frame.subarray(HEADER_BYTES), crc32(versionBytes, crc32(keyBytes)));
}
