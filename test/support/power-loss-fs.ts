/**
 * A file system in memory that keeps apart what is visible and what is durable. Bytes become durable
 * by a sync of their file, names by a sync of their directory, and a sync covers only what was there
 * when it began. `powerLoss` forgets the rest.
 *
 * Calls take effect after a drawn number of promise turns and answer after some more, so that
 * concurrent callers interleave in every order a seed can give.
 */
import { posix } from 'node:path';
import type {
  DirectoryFileSystem,
  FileFacts,
  OpenMode,
  SyncSite,
} from '../../src/adapters/directory/file-system.ts';
import type { Prng } from '../../src/lib/prng.ts';

export interface FileSystemCall {
  readonly operation: keyof DirectoryFileSystem;
  readonly path: string;
  readonly sites: readonly SyncSite[];
}

export interface PowerLossOptions {
  /** Draws interleavings. Without one, calls take effect at once and in order. */
  readonly prng?: Prng;
  /** Syncs asked for at this site alone do nothing: the mutant in which the call was forgotten. */
  readonly ignoreSync?: SyncSite | undefined;
  readonly capacityBytes?: number;
  /** Takes at most so many bytes a write. */
  readonly writeBytesMax?: number;
  /** False: `create-direct` fails with `EINVAL`. */
  readonly hasDirectWrites?: boolean;
  /** May delay a call, or fail it by throwing, before it takes effect. */
  before?: (call: FileSystemCall) => Promise<void> | void;
  /** May delay or fail a call after it took effect. */
  after?: (call: FileSystemCall) => Promise<void> | void;
}

interface FileNode {
  readonly kind: 'file';
  readonly id: number;
  bytes: Uint8Array;
  durable: Uint8Array;
  links: number;
}

interface EntryChange {
  readonly name: string;
  readonly node: Node | undefined;
}

interface DirectoryNode {
  readonly kind: 'directory';
  readonly id: number;
  readonly entries: Map<string, Node>;
  durable: Map<string, Node>;
  /** Changes of entries since the last sync, oldest first. */
  unsynced: EntryChange[];
}

type Node = FileNode | DirectoryNode;

const BLOCK_BYTES = 4096;
const SECTOR_BYTES = 512;
const NAME_BYTES_MAX = 255;

export class PowerLossFileSystem implements DirectoryFileSystem {
  options: PowerLossOptions;
  /** Calls that took effect so far. */
  callCount = 0;
  #root: DirectoryNode;
  #nextId = 1;
  #nextFd = 3;
  #open = new Map<
    number,
    { readonly node: Node; readonly path: string; readonly mode: OpenMode }
  >();
  /** Counts process deaths: calls of an earlier life never answer. */
  #life = 0;

  constructor(options: PowerLossOptions = {}) {
    this.options = options;
    this.#root = this.#newDirectory();
  }

  /** Files that are open. A process that closes what it opens leaves none. */
  get openCount(): number {
    return this.#open.size;
  }

  /**
   * The file system as the processes that live now see it: their calls end with them. Without it, a
   * process that was between two calls at its death would go on after it.
   */
  mount(): DirectoryFileSystem {
    const life = this.#life;
    const isAlive = (): boolean => life === this.#life;
    return new Proxy(this, {
      get: (target, name) => {
        const method = target[name as keyof DirectoryFileSystem] as (...args: unknown[]) => unknown;
        return (...args: unknown[]) => (isAlive() ? method.apply(target, args) : never());
      },
    });
  }

  /** All processes die; what they wrote stays visible, durable or not. */
  processCrash(): void {
    this.#life++;
    this.#open.clear();
  }

  /**
   * Power goes and comes back: only what is durable is left. With a `prng`, a drawn part of the
   * unsynced changes of directories and of the unsynced bytes happens to have reached the disk.
   */
  powerLoss(prng?: Prng): void {
    this.processCrash();
    this.#settle(this.#root, prng, new Set());
  }

  open(path: string, mode: OpenMode): Promise<number> {
    return this.#call({ operation: 'open', path, sites: [] }, () => {
      let node: Node | undefined;
      if (mode === 'create' || mode === 'create-direct') {
        if (mode === 'create-direct' && this.options.hasDirectWrites !== true)
          throw errno('EINVAL');
        node = { kind: 'file', id: this.#nextId++, bytes: EMPTY, durable: EMPTY, links: 0 };
        this.#addEntry(path, node);
      } else {
        node = this.#lookUp(path);
        if (mode === 'directory' && node.kind !== 'directory') throw errno('ENOTDIR');
      }
      const fd = this.#nextFd++;
      this.#open.set(fd, { node, path, mode });
      return fd;
    });
  }

  close(fd: number): Promise<void> {
    return this.#call(this.#describe('close', fd), () => {
      if (!this.#open.delete(fd)) throw errno('EBADF');
    });
  }

  write(fd: number, bytes: Uint8Array, position: number): Promise<number> {
    return this.#call(this.#describe('write', fd), () => {
      const file = this.#file(fd);
      const isDirect = this.#open.get(fd)!.mode === 'create-direct';
      if (isDirect && (position % BLOCK_BYTES) + (bytes.byteLength % BLOCK_BYTES) > 0) {
        throw errno('EINVAL');
      }
      const room = (this.options.capacityBytes ?? Infinity) - this.#storedBytes() + overlap();
      let count = Math.min(bytes.byteLength, this.options.writeBytesMax ?? Infinity, room);
      if (isDirect) count -= count % BLOCK_BYTES;
      if (count <= 0 && bytes.byteLength > 0) throw errno('ENOSPC');
      const grown = new Uint8Array(Math.max(file.bytes.byteLength, position + count));
      grown.set(file.bytes);
      grown.set(bytes.subarray(0, count), position);
      file.bytes = grown;
      return count;

      function overlap(): number {
        return Math.max(0, file.bytes.byteLength - position);
      }
    });
  }

  read(fd: number, into: Uint8Array, position: number): Promise<number> {
    return this.#call(this.#describe('read', fd), () => {
      const found = this.#file(fd).bytes.subarray(position, position + into.byteLength);
      into.set(found);
      return found.byteLength;
    });
  }

  truncate(fd: number, sizeBytes: number): Promise<void> {
    return this.#call(this.#describe('truncate', fd), () => {
      const file = this.#file(fd);
      file.bytes = file.bytes.slice(0, sizeBytes);
    });
  }

  syncFile(fd: number, site: SyncSite): Promise<void> {
    const call = this.#describe('syncFile', fd, [site]);
    return this.#call(call, () => {
      const file = this.#file(fd);
      const { bytes } = file;
      return () => {
        if (!this.#ignores(call.sites)) file.durable = bytes;
      };
    });
  }

  syncDirectory(fd: number, sites: readonly SyncSite[]): Promise<void> {
    const call = this.#describe('syncDirectory', fd, sites);
    return this.#call(call, () => {
      const directory = this.#open.get(fd)?.node;
      if (directory?.kind !== 'directory') throw errno('EBADF');
      const changes = [...directory.unsynced];
      return () => {
        if (this.#ignores(sites)) return;
        for (const change of changes) {
          // Another sync of the same directory may have been there first.
          if (!directory.unsynced.includes(change)) continue;
          apply(directory.durable, change);
          directory.unsynced = directory.unsynced.filter((other) => other !== change);
        }
      };
    });
  }

  stat(file: number | string): Promise<FileFacts> {
    const path = typeof file === 'string' ? file : (this.#open.get(file)?.path ?? '');
    return this.#call({ operation: 'stat', path, sites: [] }, () => {
      const node = typeof file === 'string' ? this.#lookUp(file) : this.#open.get(file)?.node;
      if (node === undefined) throw errno('EBADF');
      const isFile = node.kind === 'file';
      return {
        identity: String(node.id),
        sizeBytes: isFile ? node.bytes.byteLength : 0,
        linkCount: isFile ? node.links : 2,
      };
    });
  }

  link(existing: string, target: string): Promise<void> {
    return this.#call({ operation: 'link', path: target, sites: [] }, () => {
      const node = this.#lookUp(existing);
      if (node.kind !== 'file') throw errno('EPERM');
      this.#addEntry(target, node);
    });
  }

  unlink(path: string): Promise<void> {
    return this.#call({ operation: 'unlink', path, sites: [] }, () => {
      const node = this.#lookUp(path);
      if (node.kind !== 'file') throw errno('EISDIR');
      node.links--;
      this.#change(path, undefined);
    });
  }

  mkdir(path: string): Promise<void> {
    return this.#call({ operation: 'mkdir', path, sites: [] }, () => {
      this.#addEntry(path, this.#newDirectory());
    });
  }

  readdir(path: string): Promise<string[]> {
    return this.#call({ operation: 'readdir', path, sites: [] }, () => {
      const node = this.#lookUp(path);
      if (node.kind !== 'directory') throw errno('ENOTDIR');
      return [...node.entries.keys()];
    });
  }

  /**
   * Runs one call: its effect at some turn, its answer at a later one, neither after a death. An
   * effect that answers a function has that run at the end: what a sync achieves.
   */
  async #call<T>(call: FileSystemCall, effect: () => T | (() => T)): Promise<T> {
    const life = this.#life;
    await this.#pause();
    await this.options.before?.(call);
    if (life !== this.#life) return await never();
    this.callCount++;
    const result = effect();
    await this.options.after?.(call);
    await this.#pause();
    if (life !== this.#life) return await never();
    return typeof result === 'function' ? (result as () => T)() : result;
  }

  async #pause(): Promise<void> {
    const { prng } = this.options;
    if (prng === undefined) return;
    // Now and then a call is much slower than those around it.
    const turns = prng.below(prng.chance(0.06) ? 120 : 6);
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
  }

  #describe(
    operation: keyof DirectoryFileSystem,
    fd: number,
    sites: readonly SyncSite[] = [],
  ): FileSystemCall {
    return { operation, path: this.#open.get(fd)?.path ?? '', sites };
  }

  #ignores(sites: readonly SyncSite[]): boolean {
    return sites.every((site) => site === this.options.ignoreSync);
  }

  #newDirectory(): DirectoryNode {
    return {
      kind: 'directory',
      id: this.#nextId++,
      entries: new Map(),
      durable: new Map(),
      unsynced: [],
    };
  }

  #file(fd: number): FileNode {
    const node = this.#open.get(fd)?.node;
    if (node === undefined) throw errno('EBADF');
    if (node.kind !== 'file') throw errno('EISDIR');
    return node;
  }

  #lookUp(path: string): Node {
    let node: Node = this.#root;
    for (const name of path.split('/').filter((part) => part !== '')) {
      if (node.kind !== 'directory') throw errno('ENOTDIR');
      if (name.length > NAME_BYTES_MAX) throw errno('ENAMETOOLONG');
      const next = node.entries.get(name);
      if (next === undefined) throw errno('ENOENT');
      node = next;
    }
    return node;
  }

  #addEntry(path: string, node: Node): void {
    const parent = this.#lookUp(posix.dirname(path));
    if (parent.kind !== 'directory') throw errno('ENOTDIR');
    if (posix.basename(path).length > NAME_BYTES_MAX) throw errno('ENAMETOOLONG');
    if (parent.entries.has(posix.basename(path))) throw errno('EEXIST');
    if (node.kind === 'file') node.links++;
    this.#change(path, node);
  }

  #change(path: string, node: Node | undefined): void {
    const parent = this.#lookUp(posix.dirname(path)) as DirectoryNode;
    const change = { name: posix.basename(path), node };
    apply(parent.entries, change);
    parent.unsynced.push(change);
  }

  #storedBytes(): number {
    const files = new Set<FileNode>();
    const visit = (node: Node): void => {
      if (node.kind === 'file') files.add(node);
      else for (const entry of node.entries.values()) visit(entry);
    };
    visit(this.#root);
    return [...files].reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  }

  /** Brings one directory and all below it to what the disk holds. */
  #settle(directory: DirectoryNode, prng: Prng | undefined, settled: Set<FileNode>): void {
    for (const change of directory.unsynced) {
      if (prng?.chance(0.5) === true) apply(directory.durable, change);
    }
    directory.unsynced = [];
    directory.entries.clear();
    for (const [name, node] of directory.durable) {
      directory.entries.set(name, node);
      if (node.kind === 'directory') {
        this.#settle(node, prng, settled);
        continue;
      }
      if (!settled.has(node)) {
        settled.add(node);
        node.links = 0;
        node.bytes = node.durable = remains(node, prng);
      }
      node.links++;
    }
  }
}

const EMPTY = new Uint8Array(0);

function apply(entries: Map<string, Node>, { name, node }: EntryChange): void {
  if (node === undefined) entries.delete(name);
  else entries.set(name, node);
}

/** Each sector of the bytes is the old one or the new one; the size is the old one or the new one. */
function remains({ bytes, durable }: FileNode, prng: Prng | undefined): Uint8Array {
  if (prng === undefined || bytes === durable) return durable;
  const result = new Uint8Array(prng.chance(0.5) ? bytes.byteLength : durable.byteLength);
  result.set(durable.subarray(0, result.byteLength));
  for (let at = 0; at < result.byteLength; at += SECTOR_BYTES) {
    const end = Math.min(at + SECTOR_BYTES, result.byteLength);
    if (prng.chance(0.5)) result.set(bytes.subarray(at, end), at);
  }
  return result;
}

export function errno(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: refused by the test`), { code });
}

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}
