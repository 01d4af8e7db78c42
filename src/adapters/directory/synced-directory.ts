import type { DirectoryFileSystem, SyncSite } from './file-system.ts';
import type { Health } from './health.ts';

/**
 * One open directory whose entries are made durable. A sync is shared by all who asked before it
 * began; who asks while one runs shares the next, since a running one may have missed their entry.
 */
export class SyncedDirectory {
  readonly path: string;
  readonly #fd: number;
  readonly #fileSystem: DirectoryFileSystem;
  readonly #health: Health;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #sites: SyncSite[] = [];

  constructor(path: string, fd: number, fileSystem: DirectoryFileSystem, health: Health) {
    this.path = path;
    this.#fd = fd;
    this.#fileSystem = fileSystem;
    this.#health = health;
  }

  /**
   * Makes every entry made or removed before the call durable.
   *
   * @throws {EngineError} `BUCKET_UNAVAILABLE` when this or any earlier sync of the bucket failed.
   */
  sync(site: SyncSite): Promise<void> {
    this.#sites.push(site);
    this.#next ??= this.#syncAfter(this.#running);
    return this.#next;
  }

  close(): Promise<void> {
    return this.#fileSystem.close(this.#fd);
  }

  async #syncAfter(previous: Promise<void> | undefined): Promise<void> {
    // Also without a predecessor this yields once, so that `#next` is set before it moves on.
    await previous?.catch(() => undefined);
    await Promise.resolve();
    const sites = this.#sites;
    const current = this.#next;
    this.#sites = [];
    this.#running = current;
    this.#next = undefined;
    try {
      this.#health.check();
      await this.#fileSystem.syncDirectory(this.#fd, sites);
      this.#health.check();
    } catch (error) {
      throw this.#health.fail(error, sites);
    } finally {
      if (this.#running === current) this.#running = undefined;
    }
  }
}
