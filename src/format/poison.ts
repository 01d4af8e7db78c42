/**
 * Poison: what a fence writes into a slot that holds no flight. Preamble of kind poison, then a
 * small header that says who fenced, for people and inspectors; no rule rests on it.
 */
import { assert } from '../lib/assert.ts';
import {
  isCount,
  isZero,
  readName,
  readUint64,
  refuse,
  viewOf,
  writeName,
  writeUint64,
  type Refusal,
} from './bytes.ts';
import { crc32 } from './crc.ts';
import {
  encodePreamble,
  HEADER_BOUNDS,
  headLengths,
  parsePreamble,
  PREAMBLE_BYTES,
  type Preamble,
} from './preamble.ts';

/** `epoch` of a fencer that holds no epoch of its own, for example an operator's command. */
export const NO_EPOCH = -1;

export interface Fencer {
  readonly star: string;
  /** The fencing process as its lease record names it: 1 to 63 printable ASCII characters. */
  readonly incarnation: string;
  /** The fencer's own epoch, or `NO_EPOCH`. */
  readonly epoch: number;
}

export interface PoisonHeader {
  readonly fencedBy: Fencer;
  /** Wall time of the fencer. */
  readonly atMillis: number;
}

/** The slot that is poisoned, with star, epoch and nonce of the fenced epoch, and who does it. */
export type PoisonFields = Pick<Preamble, 'star' | 'epoch' | 'slot' | 'nonce'> & PoisonHeader;

export type PoisonResult =
  { readonly ok: true; readonly preamble: Preamble; readonly poison: PoisonHeader } | Refusal;

const AT_MILLIS_AT = 0;
const FLAGS_AT = 8;
const STAR_BYTES_AT = 9;
const INCARNATION_BYTES_AT = 10;
const RESERVED_AT = 11;
const EPOCH_AT = 16;
const NAMES_AT = 24;

const FLAG_EPOCH = 1;

/** The whole object. */
export function encodePoison(fields: PoisonFields): Uint8Array {
  const { fencedBy, atMillis } = fields;
  const { star, incarnation, epoch } = fencedBy;
  assert(isCount(epoch) || epoch === NO_EPOCH, 'epoch of the fencer is not a number of an epoch');
  const headerBytes = NAMES_AT + star.length + incarnation.length;
  assert(headerBytes <= HEADER_BOUNDS.poisonBytesMax, 'poison header is too long');
  const bytes = new Uint8Array(PREAMBLE_BYTES + headerBytes);
  const header = bytes.subarray(PREAMBLE_BYTES);
  const view = viewOf(header);
  writeUint64(view, AT_MILLIS_AT, atMillis);
  view.setUint8(FLAGS_AT, epoch === NO_EPOCH ? 0 : FLAG_EPOCH);
  view.setUint8(STAR_BYTES_AT, writeName(header, NAMES_AT, star));
  view.setUint8(INCARNATION_BYTES_AT, writeName(header, NAMES_AT + star.length, incarnation));
  writeUint64(view, EPOCH_AT, epoch === NO_EPOCH ? 0 : epoch);
  encodePreamble(bytes, 0, {
    alignBytes: 0,
    kind: 'poison',
    star: fields.star,
    epoch: fields.epoch,
    slot: fields.slot,
    nonce: fields.nonce,
    released: 0,
    headerBytes,
    bodyBytes: 0,
    entryCount: 0,
    headerChecksum: crc32(header),
    bodyChecksum: 0,
  });
  return bytes;
}

/** Reads a whole poison object and verifies its checksums. */
export function parsePoison(bytes: Uint8Array): PoisonResult {
  const read = parsePreamble(bytes);
  if (!read.ok) return read;
  const { preamble } = read;
  if (preamble.kind !== 'poison') return refuse('not poison');
  if (bytes.length !== headLengths(preamble).objectBytes) return refuse('object length differs');
  const header = bytes.subarray(PREAMBLE_BYTES);
  if (crc32(header) !== preamble.headerChecksum) return refuse('header checksum differs');
  const poison = readHeader(header);
  return poison.ok ? { ok: true, preamble, poison: poison.header } : poison;
}

function readHeader(bytes: Uint8Array): { ok: true; header: PoisonHeader } | Refusal {
  const view = viewOf(bytes);
  const atMillis = readUint64(view, AT_MILLIS_AT);
  const epoch = readUint64(view, EPOCH_AT);
  if (atMillis === undefined || epoch === undefined) return refuse('number is not a safe integer');
  const flags = view.getUint8(FLAGS_AT);
  if ((flags & ~FLAG_EPOCH) !== 0) return refuse('unknown poison flag');
  if (flags === 0 && epoch !== 0) return refuse('padding is not zero');
  if (!isZero(bytes, RESERVED_AT, EPOCH_AT)) return refuse('padding is not zero');
  const starBytes = view.getUint8(STAR_BYTES_AT);
  const incarnationBytes = view.getUint8(INCARNATION_BYTES_AT);
  if (NAMES_AT + starBytes + incarnationBytes !== bytes.length) return refuse('name lengths');
  const star = readName(bytes, NAMES_AT, starBytes);
  const incarnation = readName(bytes, NAMES_AT + starBytes, incarnationBytes);
  if (star === undefined || incarnation === undefined) return refuse('fencer is not a name');
  const fencedBy = { star, incarnation, epoch: flags === 0 ? NO_EPOCH : epoch };
  return { ok: true, header: { fencedBy, atMillis } };
}
