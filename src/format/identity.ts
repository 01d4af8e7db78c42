/**
 * The identity object of a bucket: one for each set of buckets that it belongs to, written while the
 * set is created and never again. It tells a bucket apart from an emptied or exchanged one.
 */
import { assert } from '../lib/assert.ts';
import {
  isUint32,
  isZero,
  NAME_BYTES_MAX,
  readName,
  readUint64,
  refuse,
  viewOf,
  writeName,
  writeUint64,
  type Refusal,
} from './bytes.ts';
import { crc32 } from './crc.ts';

export interface BucketIdentity {
  /** Names below are 1 to 63 printable ASCII characters without `/`. */
  readonly bucketId: string;
  /** Position in the set's fixed order, from 0. */
  readonly bucketIndex: number;
  readonly setId: string;
  readonly metastoreId: string;
  readonly createdAtMillis: number;
}

export type IdentityResult = { readonly ok: true; readonly identity: BucketIdentity } | Refusal;

export const IDENTITY_FORMAT_VERSION = 1;
/** A read of this length holds every identity object whole, and shows one that is too long. */
export const IDENTITY_READ_BYTES = 256;
export const BUCKET_INDEX_MAX = 0xffff;

const MAGIC = 'ASTRBKID';
const VERSION_AT = 8;
const BUCKET_INDEX_AT = 10;
const BUCKET_ID_BYTES_AT = 12;
const SET_ID_BYTES_AT = 13;
const METASTORE_ID_BYTES_AT = 14;
const RESERVED_AT = 15;
const CREATED_AT = 16;
const NAMES_AT = 24;
const CHECKSUM_BYTES = 4;
const BYTES_MIN = NAMES_AT + 3 + CHECKSUM_BYTES;

/** Where the identity of a set's buckets is kept in each of them; slot keys never start so. */
export function identityKey(setId: string): string {
  assert(/^[a-z0-9._-]{1,63}$/.test(setId), 'set id does not make a key');
  return `identity/${setId}`;
}

/** The whole object. */
export function encodeIdentity(identity: BucketIdentity): Uint8Array {
  const { bucketId, bucketIndex, setId, metastoreId, createdAtMillis } = identity;
  assert(isUint32(bucketIndex) && bucketIndex <= BUCKET_INDEX_MAX, 'bucket index');
  const namesBytes = bucketId.length + setId.length + metastoreId.length;
  assert(namesBytes <= 3 * NAME_BYTES_MAX, 'names are too long');
  const bytes = new Uint8Array(NAMES_AT + namesBytes + CHECKSUM_BYTES);
  const view = viewOf(bytes);
  for (let i = 0; i < MAGIC.length; i++) bytes[i] = MAGIC.charCodeAt(i);
  view.setUint16(VERSION_AT, IDENTITY_FORMAT_VERSION, true);
  view.setUint16(BUCKET_INDEX_AT, bucketIndex, true);
  writeUint64(view, CREATED_AT, createdAtMillis);
  const setAt = NAMES_AT + bucketId.length;
  const metastoreAt = setAt + setId.length;
  view.setUint8(BUCKET_ID_BYTES_AT, writeName(bytes, NAMES_AT, bucketId));
  view.setUint8(SET_ID_BYTES_AT, writeName(bytes, setAt, setId));
  view.setUint8(METASTORE_ID_BYTES_AT, writeName(bytes, metastoreAt, metastoreId));
  const checksumAt = bytes.length - CHECKSUM_BYTES;
  view.setUint32(checksumAt, crc32(bytes.subarray(0, checksumAt)), true);
  return bytes;
}

/** Reads a whole identity object and verifies its checksum. */
export function parseIdentity(bytes: Uint8Array): IdentityResult {
  if (bytes.length < BYTES_MIN) return refuse('shorter than an identity');
  const view = viewOf(bytes);
  for (let i = 0; i < MAGIC.length; i++) {
    if (bytes[i] !== MAGIC.charCodeAt(i)) return refuse('not a bucket identity');
  }
  if (view.getUint16(VERSION_AT, true) !== IDENTITY_FORMAT_VERSION)
    return refuse('unknown version');
  const checksumAt = bytes.length - CHECKSUM_BYTES;
  if (view.getUint32(checksumAt, true) !== crc32(bytes.subarray(0, checksumAt))) {
    return refuse('identity checksum differs');
  }
  return readFields(bytes, view, checksumAt);
}

function readFields(bytes: Uint8Array, view: DataView, end: number): IdentityResult {
  if (!isZero(bytes, RESERVED_AT, CREATED_AT)) return refuse('padding is not zero');
  const createdAtMillis = readUint64(view, CREATED_AT);
  if (createdAtMillis === undefined) return refuse('number is not a safe integer');
  const setAt = NAMES_AT + view.getUint8(BUCKET_ID_BYTES_AT);
  const metastoreAt = setAt + view.getUint8(SET_ID_BYTES_AT);
  if (metastoreAt + view.getUint8(METASTORE_ID_BYTES_AT) !== end) return refuse('name lengths');
  const bucketId = readName(bytes, NAMES_AT, setAt - NAMES_AT);
  const setId = readName(bytes, setAt, metastoreAt - setAt);
  const metastoreId = readName(bytes, metastoreAt, end - metastoreAt);
  if (bucketId === undefined || setId === undefined || metastoreId === undefined) {
    return refuse('identity is not made of names');
  }
  const bucketIndex = view.getUint16(BUCKET_INDEX_AT, true);
  return { ok: true, identity: { bucketId, bucketIndex, setId, metastoreId, createdAtMillis } };
}
