/** Turns what a bucket answered about a slot into a cell of the fence walk. */
import type { Preamble } from '../src/format/preamble.ts';
import { inspectSlotObject, type ExpectedSlot } from '../src/format/slot-object.ts';
import { CORRUPT, FLIGHT, POISON, type CellCode } from '../src/protocol/slot.ts';

export interface InspectedCell {
  readonly cell: CellCode;
  /** Equal for identical flights, 0 for everything else. */
  readonly print: number;
  readonly released: number;
  readonly sizeBytes: number;
  /** Why a cell is corrupt; undefined for sound ones. */
  readonly fault: string | undefined;
}

/** Judges an object from its first bytes; a flight of another writer is as bad as damage. */
export function inspectCell(
  head: Uint8Array,
  sizeBytes: number,
  expected: ExpectedSlot,
): InspectedCell {
  const found = inspectSlotObject(head, sizeBytes, expected);
  switch (found.kind) {
    case 'flight': {
      const { preamble } = found;
      const { released } = preamble;
      return { cell: FLIGHT, print: printOf(preamble), released, sizeBytes, fault: undefined };
    }
    case 'poison':
      return { cell: POISON, print: 0, released: -1, sizeBytes: 0, fault: undefined };
    case 'foreign':
      return corrupt('flight of another writer');
    case 'corrupt':
      return corrupt(found.reason);
  }
}

function corrupt(fault: string): InspectedCell {
  return { cell: CORRUPT, print: 0, released: -1, sizeBytes: 0, fault };
}

/**
 * A fingerprint in 53 bits of everything that tells two flights of one slot apart: the header's
 * checksum covers the checksum of every body part.
 */
export function printOf(preamble: Preamble): number {
  const { headerChecksum, bodyChecksum, bodyBytes, headerBytes, released } = preamble;
  const lengths = (bodyBytes ^ (headerBytes << 7) ^ Math.imul(released, 0x9e3779b1)) >>> 0;
  return ((headerChecksum ^ lengths) >>> 0) * 2 ** 20 + (bodyChecksum & 0xf_ffff) + 1;
}
