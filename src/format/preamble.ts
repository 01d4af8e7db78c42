/**
 * The first bytes of every slot object, flight or poison: what it is, whose, which slot, and how
 * long the rest is. Of fixed size, so that one small range GET answers all of it.
 * Byte table: docs/formats.md.
 */
import { assert } from '../lib/assert.ts';
import {
  bufferOf,
  isCount,
  isUint32,
  isZero,
  NAME_BYTES_MAX,
  readId,
  readName,
  readUint64,
  refuse,
  viewOf,
  writeId,
  writeName,
  writeUint64,
  type Refusal,
} from './bytes.ts';
import { crc32 } from './crc.ts';

export const PREAMBLE_BYTES = 160;
export const SLOT_FORMAT_VERSION = 1;
/** Entries of one flight: bounds the header and what a settler holds of one slot. */
export const FLIGHT_ENTRIES_MAX = 1024;
/** Bytes of all bodies of one flight: lengths are 32-bit fields. */
export const FLIGHT_BODY_BYTES_MAX = 0xffff_ffff;

export type SlotObjectKind = 'flight' | 'poison';

export interface Preamble {
  readonly kind: SlotObjectKind;
  /** 1 to 63 printable ASCII characters. */
  readonly star: string;
  /** The epoch that the slot belongs to (for poison: the fenced one). */
  readonly epoch: number;
  readonly slot: number;
  /** The nonce of that epoch's record: 32 lower-case hexadecimal digits. */
  readonly nonce: string;
  /** First slot not yet acknowledged in order when the slot was assigned; 0 in poison. */
  readonly released: number;
  /** Bytes of the header that follows the preamble. */
  readonly headerBytes: number;
  /** Bytes of the body that follows the header; 0 in poison. */
  readonly bodyBytes: number;
  /** Entries in the header; 0 in poison. */
  readonly entryCount: number;
  /** CRC-32 of the header. */
  readonly headerChecksum: number;
  /** CRC-32 of the body; 0 in poison. */
  readonly bodyChecksum: number;
  /**
   * Zeros fill up head and body to multiples of this, so that a large object can go from aligned
   * memory to a disk uncopied; 0: none.
   */
  readonly alignBytes: number;
}

export type PreambleResult = { readonly ok: true; readonly preamble: Preamble } | Refusal;

export interface HeadLengths {
  /** Preamble, header and padding: the object's body starts here. */
  readonly headBytes: number;
  readonly objectBytes: number;
}

/** The one alignment there is: what direct writes of file systems ask for. */
export const ALIGN_BYTES = 4096;

/** Bounds of one header, by kind; the formats of the two headers own the figures. */
export const HEADER_BOUNDS = {
  entryBytesMin: 56,
  entryBytesMax: 100,
  poisonBytesMin: 26,
  poisonBytesMax: 150,
} as const;

const MAGIC = 'ASTRSLOT';
const KIND_CODES = { flight: 1, poison: 2 } as const;

const VERSION_AT = 8;
const KIND_AT = 10;
const STAR_BYTES_AT = 11;
const ENTRY_COUNT_AT = 12;
const STAR_AT = 16;
const EPOCH_AT = 80;
const SLOT_AT = 88;
const NONCE_AT = 96;
const RELEASED_AT = 112;
const HEADER_BYTES_AT = 120;
const HEADER_CHECKSUM_AT = 124;
const BODY_BYTES_AT = 128;
const BODY_CHECKSUM_AT = 132;
const ALIGN_BYTES_AT = 136;
const RESERVED_AT = 138;
const CHECKSUM_AT = 156;

/**
 * Writes the preamble at `offset`. Asserts every bound that `parsePreamble` checks: what is written
 * here is accepted there.
 */
export function encodePreamble(target: Uint8Array, offset: number, preamble: Preamble): void {
  assert(offset + PREAMBLE_BYTES <= target.length, 'preamble does not fit');
  assert(preambleFault(preamble) === undefined, 'preamble is inconsistent');
  const bytes = target.subarray(offset, offset + PREAMBLE_BYTES);
  const view = viewOf(bytes);
  bytes.fill(0);
  for (let i = 0; i < MAGIC.length; i++) bytes[i] = MAGIC.charCodeAt(i);
  view.setUint16(VERSION_AT, SLOT_FORMAT_VERSION, true);
  view.setUint8(KIND_AT, KIND_CODES[preamble.kind]);
  view.setUint32(ENTRY_COUNT_AT, preamble.entryCount, true);
  view.setUint8(STAR_BYTES_AT, writeName(bytes, STAR_AT, preamble.star));
  writeUint64(view, EPOCH_AT, preamble.epoch);
  writeUint64(view, SLOT_AT, preamble.slot);
  writeId(bytes, NONCE_AT, preamble.nonce);
  writeUint64(view, RELEASED_AT, preamble.released);
  view.setUint32(HEADER_BYTES_AT, preamble.headerBytes, true);
  view.setUint32(HEADER_CHECKSUM_AT, preamble.headerChecksum, true);
  view.setUint32(BODY_BYTES_AT, preamble.bodyBytes, true);
  view.setUint32(BODY_CHECKSUM_AT, preamble.bodyChecksum, true);
  view.setUint16(ALIGN_BYTES_AT, preamble.alignBytes, true);
  view.setUint32(CHECKSUM_AT, crc32(bytes.subarray(0, CHECKSUM_AT)), true);
}

/** Reads a preamble from the first bytes of an object; more bytes may follow. */
export function parsePreamble(bytes: Uint8Array): PreambleResult {
  if (bytes.length < PREAMBLE_BYTES) return refuse('shorter than a preamble');
  const view = viewOf(bytes);
  for (let i = 0; i < MAGIC.length; i++) {
    if (bytes[i] !== MAGIC.charCodeAt(i)) return refuse('not a slot object');
  }
  // Before the checksum: a later version may keep it elsewhere, and "unknown" is the better answer.
  if (view.getUint16(VERSION_AT, true) !== SLOT_FORMAT_VERSION) return refuse('unknown version');
  if (view.getUint32(CHECKSUM_AT, true) !== crc32(bytes.subarray(0, CHECKSUM_AT))) {
    return refuse('preamble checksum differs');
  }
  return readFields(bytes, view);
}

function readFields(bytes: Uint8Array, view: DataView): PreambleResult {
  const kind = kindOf(view.getUint8(KIND_AT));
  if (kind === undefined) return refuse('unknown kind');
  const starBytes = view.getUint8(STAR_BYTES_AT);
  const star = readName(bytes, STAR_AT, starBytes);
  if (star === undefined) return refuse('star is not a name');
  if (!isZero(bytes, STAR_AT + starBytes, EPOCH_AT)) return refuse('padding is not zero');
  if (!isZero(bytes, RESERVED_AT, CHECKSUM_AT)) return refuse('padding is not zero');
  const epoch = readUint64(view, EPOCH_AT);
  const slot = readUint64(view, SLOT_AT);
  const released = readUint64(view, RELEASED_AT);
  if (epoch === undefined || slot === undefined || released === undefined) {
    return refuse('number is not a safe integer');
  }
  const preamble: Preamble = {
    kind,
    star,
    epoch,
    slot,
    nonce: readId(bufferOf(bytes), NONCE_AT),
    released,
    headerBytes: view.getUint32(HEADER_BYTES_AT, true),
    bodyBytes: view.getUint32(BODY_BYTES_AT, true),
    entryCount: view.getUint32(ENTRY_COUNT_AT, true),
    headerChecksum: view.getUint32(HEADER_CHECKSUM_AT, true),
    bodyChecksum: view.getUint32(BODY_CHECKSUM_AT, true),
    alignBytes: view.getUint16(ALIGN_BYTES_AT, true),
  };
  const fault = preambleFault(preamble);
  return fault === undefined ? { ok: true, preamble } : refuse(fault);
}

/** How long the parts of the object are, padding included, so that a reader knows whether its first read held the header. */
export function headLengths(preamble: Preamble): HeadLengths {
  const { alignBytes, headerBytes, bodyBytes } = preamble;
  const headBytes = filledUp(PREAMBLE_BYTES + headerBytes, alignBytes);
  return { headBytes, objectBytes: filledUp(headBytes + bodyBytes, alignBytes) };
}

/** The length with its padding. */
export function filledUp(lengthBytes: number, alignBytes: number): number {
  return alignBytes === 0 ? lengthBytes : Math.ceil(lengthBytes / alignBytes) * alignBytes;
}

/** What encoder and parser both refuse; field widths and names are checked where they are written. */
function preambleFault(preamble: Preamble): string | undefined {
  const { kind, epoch, slot, released, headerBytes, bodyBytes, entryCount } = preamble;
  if (!isCount(epoch) || !isCount(slot) || !isCount(released))
    return 'number is not a safe integer';
  if (!isUint32(preamble.headerChecksum)) return 'header checksum is not 32 bits';
  if (!isUint32(preamble.bodyChecksum)) return 'body checksum is not 32 bits';
  if (preamble.alignBytes !== 0 && preamble.alignBytes !== ALIGN_BYTES) return 'alignment';
  if (kind === 'poison') {
    if (preamble.alignBytes !== 0) return 'alignment';
    const { poisonBytesMin, poisonBytesMax } = HEADER_BOUNDS;
    if (headerBytes < poisonBytesMin || headerBytes > poisonBytesMax) return 'header length';
    if (bodyBytes !== 0 || entryCount !== 0 || released !== 0) return 'poison carries a body';
    return preamble.bodyChecksum === 0 ? undefined : 'poison carries a body';
  }
  if (released > slot) return 'released is above the slot';
  if (entryCount < 1 || entryCount > FLIGHT_ENTRIES_MAX) return 'entry count';
  const { entryBytesMin, entryBytesMax } = HEADER_BOUNDS;
  if (headerBytes < entryCount * entryBytesMin) return 'header length';
  if (headerBytes > entryCount * entryBytesMax) return 'header length';
  // Every entry covers at least one byte.
  if (bodyBytes < entryCount || bodyBytes > FLIGHT_BODY_BYTES_MAX) return 'body length';
  return undefined;
}

function kindOf(code: number): SlotObjectKind | undefined {
  if (code === KIND_CODES.flight) return 'flight';
  return code === KIND_CODES.poison ? 'poison' : undefined;
}

/** The name field is one byte longer than the longest name, so that a full one still ends in a zero. */
assert(STAR_AT + NAME_BYTES_MAX < EPOCH_AT, 'star field overlaps the epoch');
