/**
 * Fresh folders for benchmarks that write files, removed in the end, also when interrupted.
 *
 * While a benchmark runs, files are cut to nothing instead of deleted: on ext4, creations are slow
 * for minutes in a directory tree from which many files were deleted.
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'asterlog-bench-';
/** Smaller files are no payload: layout files, identities of buckets. */
const CUT_BYTES_MIN = 4096;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export class Workspace {
  readonly root: string;
  #folders = 0;
  readonly #onSignal = (signal: NodeJS.Signals): void => {
    this.remove();
    process.kill(process.pid, signal);
  };

  /** In `BENCH_DIRECTORY` or the system's folder for temporary files. */
  constructor() {
    const parent = process.env['BENCH_DIRECTORY'] ?? tmpdir();
    removeLeftOvers(parent);
    this.root = fs.mkdtempSync(join(parent, `${PREFIX}${process.pid}-`));
    for (const signal of SIGNALS) process.once(signal, this.#onSignal);
  }

  freshFolder(): string {
    const path = join(this.root, String(this.#folders++));
    fs.mkdirSync(path);
    return path;
  }

  /**
   * Gives the disk space of everything below folders named `objects` back, but keeps the names.
   * Nobody may read those files again.
   * One by one: freeing gigabytes at once would keep this process from anything else for seconds.
   */
  async cut(): Promise<void> {
    const entries = fs.readdirSync(this.root, { recursive: true, withFileTypes: true });
    for (const entry of entries) {
      if (!entry.isFile() || !entry.parentPath.includes('/objects')) continue;
      const path = join(entry.parentPath, entry.name);
      const { size } = await fs.promises.stat(path);
      if (size >= CUT_BYTES_MIN) await fs.promises.truncate(path, 0);
    }
  }

  remove(): void {
    for (const signal of SIGNALS) process.removeListener(signal, this.#onSignal);
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

/** Of runs that were killed. */
function removeLeftOvers(parent: string): void {
  for (const name of fs.readdirSync(parent)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    fs.rmSync(join(parent, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
