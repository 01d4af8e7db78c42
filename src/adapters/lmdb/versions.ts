import { crc32 } from 'node:zlib';
import { EngineError } from '../../lib/errors.ts';
import type { BytesDatabase } from './environment.ts';

const NEXT_KEY = Buffer.from('next-version');
/** A number and the checksum of it: versions that go back would let an old write land. */
const NUMBER_BYTES = 8;
const BYTES = NUMBER_BYTES + 4;
/** Rarely reserved, and still half a billion reservations until safe integers run out. */
const BLOCK = 2 ** 24;

/**
 * Versions out of a store-wide counter. Each thread reserves a block of them and gives them out by
 * itself; what a process did not use when it ended is never used. So a version is unique in the
 * store for good, and a write can name its version before it is judged.
 */
export class VersionSource {
  readonly #system: BytesDatabase;
  #next = 0;
  #end = 0;

  constructor(system: BytesDatabase) {
    this.#system = system;
  }

  /**
   * May block the thread for one commit, when a block is used up.
   *
   * @throws EngineError METASTORE_CORRUPT
   */
  next(): number {
    if (this.#next === this.#end) this.#reserve();
    return this.#next++;
  }

  #reserve(): void {
    const system = this.#system;
    const start = system.transactionSync(() => {
      const stored = system.getBinary(NEXT_KEY);
      const found = stored === undefined ? 1 : numberIn(stored);
      system.putSync(NEXT_KEY, counterOf(found + BLOCK));
      return found;
    });
    this.#next = start;
    this.#end = start + BLOCK;
  }
}

function counterOf(value: number): Buffer {
  const bytes = Buffer.alloc(BYTES);
  bytes.writeDoubleLE(value);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, NUMBER_BYTES)), NUMBER_BYTES);
  return bytes;
}

function numberIn(bytes: Buffer): number {
  const sound =
    bytes.length === BYTES &&
    bytes.readUInt32LE(NUMBER_BYTES) === crc32(bytes.subarray(0, NUMBER_BYTES));
  if (sound && Number.isSafeInteger(bytes.readDoubleLE(0))) return bytes.readDoubleLE(0);
  throw new EngineError('METASTORE_CORRUPT', 'the counter of versions fails its checksum', {
    details: { key: NEXT_KEY.toString(), bytes: bytes.length },
  });
}
