import type { DirectoryFileSystem } from './file-system.ts';
import type { TempFile, TempFiles } from './temp-files.ts';

/** Writes the bytes of objects into temporary files. */
export class ObjectWriter {
  readonly #fileSystem: DirectoryFileSystem;
  readonly #temps: TempFiles;

  constructor(fileSystem: DirectoryFileSystem, temps: TempFiles) {
    this.#fileSystem = fileSystem;
    this.#temps = temps;
  }

  /** A new temporary file with these bytes, not yet durable. `bytes` are not read after it settles. */
  async write(bytes: Uint8Array): Promise<TempFile> {
    const path = this.#temps.nextPath();
    const file = { path, fd: await this.#fileSystem.open(path, 'create') };
    try {
      let position = await this.#fileSystem.write(file.fd, bytes, 0);
      while (position < bytes.byteLength) {
        position += await this.#fileSystem.write(file.fd, bytes.subarray(position), position);
      }
    } catch (error) {
      this.#temps.discard(file);
      throw error;
    }
    return file;
  }
}
