import { isInBlocks } from '../../lib/pages.ts';
import { ALIGNED_BUFFER_BYTES, AlignedBuffers, BLOCK_BYTES } from './aligned-buffers.ts';
import { codeOf } from './failure.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import type { TempFile, TempFiles } from './temp-files.ts';

/** From here on the page cache costs more than a copy into aligned memory. */
export const DIRECT_WRITE_BYTES_MIN = 32 * 1024;

/**
 * Writes the bytes of objects into temporary files: small ones through the page cache, large ones
 * past it where the file system allows, which takes half the processor time.
 */
export class ObjectWriter {
  readonly #fileSystem: DirectoryFileSystem;
  readonly #temps: TempFiles;
  readonly #buffers = new AlignedBuffers();
  #directBytesMin: number;

  constructor(fileSystem: DirectoryFileSystem, temps: TempFiles, directBytesMin: number) {
    this.#fileSystem = fileSystem;
    this.#temps = temps;
    this.#directBytesMin = directBytesMin;
  }

  /** A new temporary file with these bytes, not yet durable. `bytes` are not read after it settles. */
  async write(bytes: Uint8Array): Promise<TempFile> {
    if (bytes.byteLength >= this.#directBytesMin) {
      const file = await this.#writeDirect(bytes);
      if (file !== undefined) return file;
      // No such writes here: do not try again.
      this.#directBytesMin = Infinity;
    }
    return await this.#writeCached(bytes);
  }

  async #writeCached(bytes: Uint8Array): Promise<TempFile> {
    const file = await this.#temps.take('create');
    try {
      let position = await this.#fileSystem.write(file.fd, bytes, 0);
      while (position < bytes.byteLength) {
        const count = await this.#fileSystem.write(file.fd, bytes.subarray(position), position);
        position += checkProgress(count);
      }
    } catch (error) {
      this.#temps.discard(file);
      throw error;
    }
    return file;
  }

  /** Undefined: the file system does not take direct writes. */
  async #writeDirect(bytes: Uint8Array): Promise<TempFile | undefined> {
    let file: TempFile | undefined;
    try {
      file = await this.#temps.take('create-direct');
      // Whole blocks of aligned memory, as the engine's flights are, go to the disk as they lie.
      if (isInBlocks(bytes, BLOCK_BYTES)) {
        await this.#writeBlocks(file.fd, bytes, 0);
        return file;
      }
      for (let at = 0; at < bytes.byteLength; at += ALIGNED_BUFFER_BYTES) {
        await this.#writePart(file.fd, bytes.subarray(at, at + ALIGNED_BUFFER_BYTES), at);
      }
      if (bytes.byteLength % BLOCK_BYTES > 0) {
        await this.#fileSystem.truncate(file.fd, bytes.byteLength);
      }
      return file;
    } catch (error) {
      if (file !== undefined) this.#temps.discard(file);
      if (!isUnsupported(error)) throw error;
      return undefined;
    }
  }

  async #writePart(fd: number, part: Uint8Array, position: number): Promise<void> {
    const buffer = await this.#buffers.take();
    try {
      buffer.set(part);
      const end = Math.ceil(part.byteLength / BLOCK_BYTES) * BLOCK_BYTES;
      // The end of the last block is cut off again, but must not show what was written before.
      buffer.fill(0, part.byteLength, end);
      await this.#writeBlocks(fd, buffer.subarray(0, end), position);
    } finally {
      this.#buffers.give(buffer);
    }
  }

  async #writeBlocks(fd: number, blocks: Uint8Array, position: number): Promise<void> {
    let written = 0;
    while (written < blocks.byteLength) {
      const rest = written === 0 ? blocks : blocks.subarray(written);
      const count = await this.#fileSystem.write(fd, rest, position + written);
      written += checkProgress(count - (count % BLOCK_BYTES));
    }
  }
}

/** A file system that takes nothing and reports nothing would keep a write going for ever. */
function checkProgress(count: number): number {
  if (count > 0) return count;
  throw Object.assign(new Error('a write made no progress'), { code: 'EIO' });
}

function isUnsupported(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'EINVAL' || code === 'ENOTSUP';
}
