import { randomBytes } from 'node:crypto';
import { deferred, type Deferred } from '../../lib/wait.ts';
import type { Processes } from '../../ports/processes.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import { SpareFiles, type CreateMode } from './spare-files.ts';
import { judgeOwner, ownerPrefix } from './temp-names.ts';

/** Files that wait to be closed and unlinked. More makes creations wait. */
const BACKLOG_MAX = 128;
const DISPOSERS = 8;

export interface TempFile {
  readonly path: string;
  readonly fd: number;
  /** Of the file of an object. */
  readonly mode?: CreateMode;
}

/** Names temporary files and gets rid of them, behind the answers but never far behind. */
export class TempFiles {
  readonly path: string;
  readonly #prefix: string;
  readonly #fileSystem: DirectoryFileSystem;
  readonly #doomed: TempFile[] = [];
  readonly #spares: SpareFiles;
  #sequence = 0;
  #disposers = 0;
  #room: Deferred<void> | undefined;
  #drained: Deferred<void> | undefined;

  constructor(path: string, processes: Processes, fileSystem: DirectoryFileSystem) {
    this.path = path;
    // Two stores of one process, or of two processes with one pid, must not meet.
    this.#prefix = `${path}/${ownerPrefix(processes.self())}.${randomBytes(6).toString('hex')}`;
    this.#fileSystem = fileSystem;
    this.#spares = new SpareFiles(
      (mode) => this.#make(mode),
      (file) => this.discard(file),
    );
  }

  nextPath(): string {
    return `${this.#prefix}.${(this.#sequence++).toString(36)}`;
  }

  /** A new file for an object; rejects as `open` of the file system does. */
  async take(mode: CreateMode): Promise<TempFile> {
    return this.#spares.take(mode) ?? (await this.#make(mode));
  }

  /** `discard` for a file that served its purpose: another object is likely to follow. */
  replace(file: TempFile): void {
    // First, since creations wait for it rather than for the disposal.
    if (file.mode !== undefined) this.#spares.add(file.mode);
    this.discard(file);
  }

  /** Something to wait for while too many files wait to be disposed of. */
  room(): Promise<void> | undefined {
    if (this.#doomed.length < BACKLOG_MAX) return undefined;
    this.#room ??= deferred();
    return this.#room.promise;
  }

  /** Takes over the descriptor and the name. Failures are left to the next sweep. */
  discard(file: TempFile): void {
    this.#doomed.push(file);
    if (this.#disposers < DISPOSERS) void this.#dispose();
  }

  /** No file is kept any more, and all are disposed of. False: the file system hangs past the time-out. */
  async close(timeoutMillis: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMillis);
    });
    const closed = this.#spares.close().then(() => this.drained());
    try {
      return await Promise.race([closed.then(() => true), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async drained(): Promise<void> {
    if (this.#disposers === 0) return;
    this.#drained ??= deferred();
    await this.#drained.promise;
  }

  /**
   * Removes what earlier processes left behind. A file with a second name is published and its
   * temporary name is of no use; one without was never published and never will be: it goes when
   * its owner cannot be at work any more.
   */
  async sweep(processes: Processes): Promise<void> {
    for (const name of await this.#fileSystem.readdir(this.path)) {
      const path = `${this.path}/${name}`;
      try {
        const { linkCount } = await this.#fileSystem.stat(path);
        if (linkCount > 1 || judgeOwner(name, processes) === 'dead') {
          await this.#fileSystem.unlink(path);
        }
      } catch {
        // Its owner or another sweep was faster, or the file is not ours to remove.
      }
    }
  }

  async #make(mode: CreateMode): Promise<TempFile> {
    const path = this.nextPath();
    try {
      return { path, fd: await this.#fileSystem.open(path, mode), mode };
    } catch (error) {
      // Linux creates a file before it refuses to open it for direct writes.
      if (mode === 'create-direct') await this.#fileSystem.unlink(path).catch(() => undefined);
      throw error;
    }
  }

  async #dispose(): Promise<void> {
    this.#disposers++;
    for (let file = this.#doomed.shift(); file !== undefined; file = this.#doomed.shift()) {
      if (this.#doomed.length < BACKLOG_MAX) this.#giveRoom();
      await this.#fileSystem.close(file.fd).catch(() => undefined);
      await this.#fileSystem.unlink(file.path).catch(() => undefined);
    }
    this.#disposers--;
    if (this.#disposers > 0) return;
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  #giveRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
