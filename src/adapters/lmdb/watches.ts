/**
 * Watches over one file that several processes write. Nobody is told of another process's commits,
 * so a change mark is polled; when it moved, the entries under the prefix are compared with those
 * last seen. Several changes of one key between two looks are reported as one.
 */
import type { MetaEntry, MetaVersion, MetaWatch, MetaWatchEvent } from '../../ports/metastore.ts';

export interface WatchSource {
  /** Differs after every change under the prefix. */
  changeMark(prefix: string): string;
  range(prefix: string, startAfter: string, limit: number): MetaEntry[];
}

export interface WatchesOptions {
  readonly pollMillis: number;
  /** A watch that finds more entries under its prefix reports `resync` instead of each change. */
  readonly entriesMax: number;
}

export class Watches {
  readonly #source: WatchSource;
  readonly #options: WatchesOptions;
  readonly #watches = new Set<Watch>();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;

  constructor(source: WatchSource, options: WatchesOptions) {
    this.#source = source;
    this.#options = options;
  }

  add(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch {
    const watch = new Watch(this.#source, prefix, listener, this.#options.entriesMax);
    this.#watches.add(watch);
    // Polling alone does not keep a process alive.
    this.#timer ??= setInterval(() => this.#look(), this.#options.pollMillis).unref();
    this.lookSoon();
    return {
      close: () => {
        watch.close();
        this.#watches.delete(watch);
        if (this.#watches.size === 0) this.#stop();
      },
    };
  }

  /** Looks in a later turn; called after own commits so that they need not wait for a poll. */
  lookSoon(): void {
    if (this.#watches.size === 0) return;
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      this.#look();
    });
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
    this.#watches.clear();
    this.#stop();
  }

  #look(): void {
    for (const watch of [...this.#watches]) watch.look();
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (this.#soon !== undefined) clearImmediate(this.#soon);
    this.#soon = undefined;
  }
}

class Watch {
  readonly #source: WatchSource;
  readonly #prefix: string;
  readonly #listener: (event: MetaWatchEvent) => void;
  readonly #entriesMax: number;
  /** What was reported last; undefined when only `resync` can be. */
  #seen: ReadonlyMap<string, MetaVersion> | undefined;
  #mark: string | undefined;
  #failing = false;
  #closed = false;

  constructor(
    source: WatchSource,
    prefix: string,
    listener: (event: MetaWatchEvent) => void,
    entriesMax: number,
  ) {
    this.#source = source;
    this.#prefix = prefix;
    this.#listener = listener;
    this.#entriesMax = entriesMax;
  }

  close(): void {
    this.#closed = true;
  }

  look(): void {
    try {
      // The mark first: a change between the two reads is looked at once more.
      const mark = this.#source.changeMark(this.#prefix);
      const first = this.#mark === undefined;
      if (mark === this.#mark && !this.#failing) return;
      const entries = this.#source.range(this.#prefix, '', this.#entriesMax + 1);
      const before = this.#seen;
      this.#mark = mark;
      this.#failing = false;
      this.#seen =
        entries.length > this.#entriesMax
          ? undefined
          : new Map(entries.map((entry) => [entry.key, entry.version]));
      if (first) this.#report({ kind: 'ready' });
      else if (before === undefined || this.#seen === undefined) this.#report({ kind: 'resync' });
      else this.#reportChanges(before, entries);
    } catch {
      // Whoever reads again gets the error; a watch that lost sight of its prefix says so once.
      if (!this.#failing) this.#report({ kind: 'resync' });
      this.#failing = true;
    }
  }

  #reportChanges(before: ReadonlyMap<string, MetaVersion>, entries: readonly MetaEntry[]): void {
    const left = new Set(before.keys());
    for (const entry of entries) left.delete(entry.key);
    for (const key of left) this.#report({ kind: 'deleted', key });
    for (const entry of entries) {
      if (before.get(entry.key) !== entry.version) this.#report({ kind: 'put', entry });
    }
  }

  #report(event: MetaWatchEvent): void {
    if (!this.#closed) this.#listener(event);
  }
}
