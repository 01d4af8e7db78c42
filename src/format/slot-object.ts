/** What stands in a slot, judged from the first bytes of the object found there. */
import { isZero } from './bytes.ts';
import { crc32 } from './crc.ts';
import { headLengths, parsePreamble, PREAMBLE_BYTES, type Preamble } from './preamble.ts';

/** The slot that was read and the nonce in its epoch's record. */
export type ExpectedSlot = Pick<Preamble, 'star' | 'epoch' | 'slot' | 'nonce'>;

export type SlotObject =
  | { readonly kind: 'flight'; readonly preamble: Preamble }
  | { readonly kind: 'poison'; readonly preamble: Preamble }
  /** A sound flight of another writer of an epoch of that number: a metastore was lost or restored. */
  | { readonly kind: 'foreign'; readonly preamble: Preamble }
  | { readonly kind: 'corrupt'; readonly reason: string };

/**
 * Judges the object in a slot. Verifies the preamble always, and header and body as far as `head`
 * holds them whole: a longer read can only turn an answer into `corrupt`, never out of it.
 *
 * @param head - the first bytes of the object, at least `PREAMBLE_BYTES` unless it is shorter.
 * @param sizeBytes - size of the whole object.
 */
export function inspectSlotObject(
  head: Uint8Array,
  sizeBytes: number,
  expected: ExpectedSlot,
): SlotObject {
  const read = parsePreamble(head);
  if (!read.ok) return { kind: 'corrupt', reason: read.reason };
  const { preamble } = read;
  const reason = misplaced(preamble, expected) ?? damaged(head, sizeBytes, preamble);
  if (reason !== undefined) return { kind: 'corrupt', reason };
  // Poison ends the epoch of that number whoever wrote it, so its nonce is not compared.
  if (preamble.kind === 'poison') return { kind: 'poison', preamble };
  return { kind: preamble.nonce === expected.nonce ? 'flight' : 'foreign', preamble };
}

function misplaced(preamble: Preamble, expected: ExpectedSlot): string | undefined {
  if (preamble.star !== expected.star) return 'object of another star';
  if (preamble.epoch !== expected.epoch) return 'object of another epoch';
  return preamble.slot === expected.slot ? undefined : 'object of another slot';
}

function damaged(head: Uint8Array, sizeBytes: number, preamble: Preamble): string | undefined {
  const { headBytes, objectBytes } = headLengths(preamble);
  if (sizeBytes !== objectBytes) return 'object length differs';
  if (head.length > objectBytes) return 'object length differs';
  if (head.length < headBytes) return undefined;
  const headerEnd = PREAMBLE_BYTES + preamble.headerBytes;
  if (crc32(head.subarray(PREAMBLE_BYTES, headerEnd)) !== preamble.headerChecksum) {
    return 'header checksum differs';
  }
  if (!isZero(head, headerEnd, headBytes)) return 'padding is not zero';
  if (head.length < objectBytes) return undefined;
  const bodyEnd = headBytes + preamble.bodyBytes;
  if (!isZero(head, bodyEnd, objectBytes)) return 'padding is not zero';
  return crc32(head.subarray(headBytes, bodyEnd)) === preamble.bodyChecksum
    ? undefined
    : 'body checksum differs';
}

/** Whether two flights are copies of one: same place, same writer, same bytes by length and checksum. */
export function sameFlight(a: Preamble, b: Preamble): boolean {
  return (
    a.kind === 'flight' &&
    b.kind === 'flight' &&
    a.star === b.star &&
    a.epoch === b.epoch &&
    a.slot === b.slot &&
    a.nonce === b.nonce &&
    a.released === b.released &&
    a.entryCount === b.entryCount &&
    a.headerBytes === b.headerBytes &&
    a.bodyBytes === b.bodyBytes &&
    a.headerChecksum === b.headerChecksum &&
    a.bodyChecksum === b.bodyChecksum &&
    a.alignBytes === b.alignBytes
  );
}
