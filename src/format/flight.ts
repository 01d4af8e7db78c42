/**
 * A flight: one batch object in a slot, carrying records of many streams. Preamble, then a header
 * with one entry per stream batch, then the bodies. Bodies are encoded first and the head is written
 * in front of them, so that nothing is copied. Byte tables: docs/formats.md.
 */
import { assert } from '../lib/assert.ts';
import { bufferOf, isZero, refuse, viewOf, type Refusal } from './bytes.ts';
import { crc32, crc32Combine } from './crc.ts';
import { entryBytes, entryFault, readEntry, writeEntry, type FlightEntry } from './flight-entry.ts';
import {
  ALIGN_BYTES,
  encodePreamble,
  filledUp,
  FLIGHT_BODY_BYTES_MAX,
  FLIGHT_ENTRIES_MAX,
  headLengths,
  HEADER_BOUNDS,
  parsePreamble,
  PREAMBLE_BYTES,
  type Preamble,
} from './preamble.ts';

export type { FlightEntry, StateDelta } from './flight-entry.ts';
export { FLIGHT_ENTRIES_MAX } from './preamble.ts';

/** The most that preamble and header can take: what a writer keeps free in front of the bodies. */
export const HEAD_ROOM_BYTES = filledUp(
  PREAMBLE_BYTES + FLIGHT_ENTRIES_MAX * HEADER_BOUNDS.entryBytesMax,
  ALIGN_BYTES,
);
/** A first read of an object; holds the header of a flight of 70 entries without state deltas. */
export const DEFAULT_HEAD_READ_BYTES = 4096;

/** What the writer puts into the preamble; lengths and checksums follow from the entries. */
export type FlightFields = Pick<Preamble, 'star' | 'epoch' | 'slot' | 'nonce' | 'released'>;

export type HeaderResult = { readonly ok: true; readonly entries: FlightEntry[] } | Refusal;

export type FlightResult =
  | {
      readonly ok: true;
      readonly preamble: Preamble;
      readonly entries: FlightEntry[];
      /** Where the body starts in the object; entry offsets count from here. */
      readonly bodyStart: number;
    }
  | Refusal;

/** Bytes that preamble and header of these entries take, without padding. */
export function headBytes(entries: readonly FlightEntry[]): number {
  let total = PREAMBLE_BYTES;
  for (const entry of entries) total += entryBytes(entry);
  return total;
}

/**
 * Writes preamble and header so that they end at `bodyStart`, where the bodies already stand.
 * The checksum of the whole body is combined from those of the entries: no body byte is read.
 *
 * @param alignBytes - 0, or `ALIGN_BYTES` when `bodyStart` is a multiple of it: the object then starts
 *   and ends at one, too, which takes so many bytes more of `target` behind the bodies.
 * @returns where the object starts in `target`.
 */
export function encodeHead(
  target: Uint8Array,
  bodyStart: number,
  fields: FlightFields,
  entries: readonly FlightEntry[],
  alignBytes = 0,
): number {
  assert(entries.length >= 1, 'flight has no entry');
  assert(entries.length <= FLIGHT_ENTRIES_MAX, 'flight has too many entries');
  const body = coverBody(entries);
  assert(body.ok, 'flight entries are inconsistent');
  const bodyEnd = bodyStart + body.bodyBytes;
  const end = filledUp(bodyEnd, alignBytes);
  assert(end <= target.length, 'body ends behind the memory');
  const start = bodyStart - filledUp(headBytes(entries), alignBytes);
  assert(start >= 0, 'no room for the head');
  assert(alignBytes === 0 || bodyStart % alignBytes === 0, 'body does not start at a block');
  const headerStart = start + PREAMBLE_BYTES;
  const view = viewOf(target);
  let offset = headerStart;
  for (const entry of entries) offset += writeEntry(target, view, offset, entry);
  assert(offset === start + headBytes(entries), 'header does not end behind its entries');
  target.fill(0, offset, bodyStart);
  target.fill(0, bodyEnd, end);
  encodePreamble(target, start, {
    kind: 'flight',
    star: fields.star,
    epoch: fields.epoch,
    slot: fields.slot,
    nonce: fields.nonce,
    released: fields.released,
    headerBytes: offset - headerStart,
    bodyBytes: body.bodyBytes,
    entryCount: entries.length,
    headerChecksum: crc32(target.subarray(headerStart, offset)),
    bodyChecksum: body.checksum,
    alignBytes,
  });
  return start;
}

/**
 * Reads the header that follows a flight's preamble.
 *
 * @param bytes - the header with its padding: `[PREAMBLE_BYTES, headLengths(preamble).headBytes)`.
 */
export function parseHeader(bytes: Uint8Array, preamble: Preamble): HeaderResult {
  if (preamble.kind !== 'flight') return refuse('not a flight');
  const { headerBytes } = preamble;
  if (bytes.length !== headLengths(preamble).headBytes - PREAMBLE_BYTES) {
    return refuse('header length differs');
  }
  if (crc32(bytes.subarray(0, headerBytes)) !== preamble.headerChecksum) {
    return refuse('header checksum differs');
  }
  if (!isZero(bytes, headerBytes, bytes.length)) return refuse('padding is not zero');
  const view = viewOf(bytes);
  const buffer = bufferOf(bytes);
  const entries: FlightEntry[] = [];
  let at = 0;
  let offset = 0;
  for (let index = 0; index < preamble.entryCount; index++) {
    const read = readEntry(buffer, view, at, offset);
    if (!read.ok) return read;
    entries.push(read.entry);
    at += read.size;
    offset += read.entry.length;
  }
  if (at !== headerBytes) return refuse('header goes on behind its entries');
  const body = coverBody(entries);
  if (!body.ok) return body;
  if (body.bodyBytes !== preamble.bodyBytes) return refuse('entries do not cover the body');
  if (body.checksum !== preamble.bodyChecksum)
    return refuse('entry checksums do not make up the body');
  return { ok: true, entries };
}

/** Reads a whole flight and verifies every checksum in it. */
export function parseFlight(bytes: Uint8Array): FlightResult {
  const read = parsePreamble(bytes);
  if (!read.ok) return read;
  const { preamble } = read;
  if (preamble.kind !== 'flight') return refuse('not a flight');
  const { headBytes: bodyStart, objectBytes } = headLengths(preamble);
  if (bytes.length !== objectBytes) return refuse('object length differs');
  const header = parseHeader(bytes.subarray(PREAMBLE_BYTES, bodyStart), preamble);
  if (!header.ok) return header;
  // The entries tile the body, so their checksums cover all of it.
  for (const { offset, length, checksum } of header.entries) {
    const start = bodyStart + offset;
    if (crc32(bytes.subarray(start, start + length)) !== checksum) {
      return refuse('body checksum differs');
    }
  }
  if (!isZero(bytes, bodyStart + preamble.bodyBytes, bytes.length)) {
    return refuse('padding is not zero');
  }
  return { ok: true, preamble, entries: header.entries, bodyStart };
}

type BodyCover =
  { readonly ok: true; readonly bodyBytes: number; readonly checksum: number } | Refusal;

/** Checks that the entries tile a body in order, and derives its length and checksum. */
function coverBody(entries: readonly FlightEntry[]): BodyCover {
  const nextSeqNums = new Map<string, number>();
  let bodyBytes = 0;
  let checksum = 0;
  for (const entry of entries) {
    const fault = entryFault(entry);
    if (fault !== undefined) return refuse(fault);
    if (entry.offset !== bodyBytes) return refuse('entries do not tile the body');
    const next = nextSeqNums.get(entry.streamId);
    if (next !== undefined && entry.firstSeqNum < next) return refuse('sequence numbers go back');
    nextSeqNums.set(entry.streamId, entry.firstSeqNum + entry.count);
    bodyBytes += entry.length;
    checksum = crc32Combine(checksum, entry.checksum, entry.length);
  }
  if (bodyBytes > FLIGHT_BODY_BYTES_MAX) return refuse('body length');
  return { ok: true, bodyBytes, checksum };
}
