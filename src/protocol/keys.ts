/** Keys of buckets and of the metastore. Sources: DESIGN "Slot objects and buckets", "Metastore". */
import { crc32 } from 'node:zlib';
import { assert } from '../lib/assert.ts';

/** Decimal digits of padded numbers: enough for every safe integer, so text order is number order. */
const DIGITS = 16;

export function pad(value: number): string {
  assert(Number.isSafeInteger(value) && value >= 0, 'keys hold safe integers from 0');
  return value.toString().padStart(DIGITS, '0');
}

/** Undefined for text that `pad` does not write. */
export function unpad(text: string): number | undefined {
  const value = /^\d{16}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}

/** Lists exactly one epoch; its leading hash spreads epochs over a store's key ranges. */
export function epochPrefix(star: string, epoch: number): string {
  const hash = (crc32(`${star}/${epoch}`) & 0xffff).toString(16).padStart(4, '0');
  return `${hash}/${star}/${pad(epoch)}/`;
}

export function slotKey(star: string, epoch: number, slot: number): string {
  return epochPrefix(star, epoch) + pad(slot);
}

export const chainKey = (star: string): string => `chains/${star}`;
export const epochKey = (star: string, epoch: number): string => `chains/${star}/${pad(epoch)}`;
export const epochsPrefix = (star: string): string => `chains/${star}/`;
export const starsPrefix = 'stars/';
export const starKey = (star: string): string => starsPrefix + star;
export const limboPrefix = (star: string): string => `limbo/${star}/`;
export const limboKey = (star: string, streamId: string): string => limboPrefix(star) + streamId;
export const setKey = (setId: string): string => `sets/${setId}`;

export const namesPrefix = (basin: string): string => `names/${basin}/`;

/** Names are any UTF-8; hex keeps their byte order and every prefix relation. */
export function nameKey(basin: string, name: string): string {
  return namesPrefix(basin) + nameHex(name);
}

export const nameHex = (name: string): string => Buffer.from(name, 'utf8').toString('hex');
export const nameOfHex = (hex: string): string => Buffer.from(hex, 'hex').toString('utf8');

export const streamKey = (streamId: string): string => `streams/${streamId}`;
export const writerKey = (streamId: string): string => `streams/${streamId}/writer`;
export const refsPrefix = (streamId: string): string => `streams/${streamId}/refs/`;
export const refRowKey = (streamId: string, start: number): string =>
  refsPrefix(streamId) + pad(start);
