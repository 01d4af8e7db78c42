import { assert } from '../../lib/assert.ts';
import { codeOf } from './failure.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import type { Health } from './health.ts';
import { makeDirectory } from './layout.ts';
import { SyncedDirectory } from './synced-directory.ts';

/** Directories kept open between uses. */
const OPEN_MAX = 64;

interface Entry {
  readonly directory: SyncedDirectory;
  uses: number;
}

/**
 * The directories of objects, opened once and kept for their syncs, the longest unused ones closed.
 *
 * A directory counts as usable only after its parent was synced once by this process: also when it
 * was there before, since who made it may have died first. Directories are never removed, so an open
 * one always is the one its path names.
 */
export class Directories {
  readonly objects: SyncedDirectory;
  readonly #fileSystem: DirectoryFileSystem;
  readonly #health: Health;
  /** In the order of last use. */
  readonly #entries = new Map<string, Entry>();
  readonly #opening = new Map<string, Promise<Entry | undefined>>();

  constructor(objects: SyncedDirectory, fileSystem: DirectoryFileSystem, health: Health) {
    this.objects = objects;
    this.#fileSystem = fileSystem;
    this.#health = health;
  }

  /**
   * The directory at `path` below `objects/`, to be given back with `release`. `missing` says what
   * becomes of one that does not exist: made, or answered as undefined.
   */
  async acquire(path: string, missing: 'make' | 'undefined'): Promise<SyncedDirectory | undefined> {
    for (;;) {
      const entry = this.#entries.get(path) ?? (await this.#open(path, missing));
      if (entry === undefined) return undefined;
      // An entry nobody uses yet may have been closed again while this call waited for it.
      if (this.#entries.get(path) !== entry) continue;
      entry.uses++;
      if (this.#entries.size > 1) this.#touch(path, entry);
      return entry.directory;
    }
  }

  release(path: string): void {
    const entry = this.#entries.get(path);
    assert(entry !== undefined && entry.uses > 0, 'a directory is released once per use');
    entry.uses--;
  }

  async close(): Promise<void> {
    const all = [this.objects, ...[...this.#entries.values()].map(({ directory }) => directory)];
    this.#entries.clear();
    await Promise.all(all.map((directory) => directory.close()));
  }

  #open(path: string, missing: 'make' | 'undefined'): Promise<Entry | undefined> {
    const turn = `${missing} ${path}`;
    let opening = this.#opening.get(turn);
    if (opening === undefined) {
      opening = this.#openOnce(path, missing).finally(() => this.#opening.delete(turn));
      this.#opening.set(turn, opening);
    }
    return opening;
  }

  async #openOnce(path: string, missing: 'make' | 'undefined'): Promise<Entry | undefined> {
    const outer = path.lastIndexOf('/');
    const parentPath = outer < 0 ? undefined : path.slice(0, outer);
    const parent =
      parentPath === undefined ? this.objects : await this.acquire(parentPath, missing);
    if (parent === undefined) return undefined;
    try {
      const full = `${this.objects.path}/${path}`;
      if (missing === 'make') await makeDirectory(this.#fileSystem, full);
      const fd = await this.#openDirectory(full, missing);
      if (fd === undefined) return undefined;
      const directory = new SyncedDirectory(full, fd, this.#fileSystem, this.#health);
      try {
        await parent.sync('new-directory');
      } catch (error) {
        await directory.close();
        throw error;
      }
      return await this.#keep(path, { directory, uses: 0 });
    } finally {
      if (parentPath !== undefined) this.release(parentPath);
    }
  }

  async #openDirectory(full: string, missing: 'make' | 'undefined'): Promise<number | undefined> {
    try {
      return await this.#fileSystem.open(full, 'directory');
    } catch (error) {
      if (missing === 'undefined' && codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** A reader and a creator may have opened the same directory at once: the first one stays. */
  async #keep(path: string, entry: Entry): Promise<Entry> {
    const kept = this.#entries.get(path);
    if (kept !== undefined) {
      await entry.directory.close();
      return kept;
    }
    this.#entries.set(path, entry);
    this.#closeUnused();
    return entry;
  }

  #touch(path: string, entry: Entry): void {
    this.#entries.delete(path);
    this.#entries.set(path, entry);
  }

  #closeUnused(): void {
    for (const [path, { uses, directory }] of this.#entries) {
      if (this.#entries.size <= OPEN_MAX) return;
      if (uses > 0) continue;
      this.#entries.delete(path);
      directory.close().catch(() => undefined);
    }
  }
}
