/**
 * The few file-system calls a directory bucket needs, so that tests can put a file system behind it
 * that loses power, fills up or refuses. Files are raw descriptors: `FileHandle` promises cost a
 * third more per call.
 *
 * Every call rejects with an error that carries `code` as Node's do (`EEXIST`, `ENOSPC`, ...).
 */
export interface DirectoryFileSystem {
  open(path: string, mode: OpenMode): Promise<number>;
  close(fd: number): Promise<void>;
  /** Writes `bytes` at `position`; answers how many were taken, possibly fewer than given. */
  write(fd: number, bytes: Uint8Array, position: number): Promise<number>;
  /** Fills `into` from `position`; answers how many bytes there were, 0 at the end. */
  read(fd: number, into: Uint8Array, position: number): Promise<number>;
  truncate(fd: number, sizeBytes: number): Promise<void>;
  /** Once it resolves, the bytes written to the file before the call survive a power cut. */
  syncFile(fd: number, site: SyncSite): Promise<void>;
  /** Once it resolves, the entries made and removed before the call survive a power cut. */
  syncDirectory(fd: number, sites: readonly SyncSite[]): Promise<void>;
  stat(file: number | string): Promise<FileFacts>;
  /** Gives the file a second name; rejects with `EEXIST` if there is one already. */
  link(existing: string, target: string): Promise<void>;
  unlink(path: string): Promise<void>;
  mkdir(path: string): Promise<void>;
  readdir(path: string): Promise<string[]>;
}

/**
 * `create` makes a new file to write; `create-direct` one whose writes go past the page cache, from
 * page-aligned memory and in whole blocks; `EINVAL` or `ENOTSUP` where that does not exist.
 */
export type OpenMode = 'create' | 'create-direct' | 'read' | 'directory';

/** Why a sync is asked for. One sync of a directory may serve several reasons. */
export type SyncSite =
  /** The bytes of an object, before it gets its name. */
  | 'object'
  /** The name of an object, before its creation is answered. */
  | 'created'
  /** The name of an object of somebody else, before it is answered. */
  | 'exists'
  /** What a reader is about to decide from. */
  | 'evidence'
  | 'deleted'
  /** The parent of a directory that this process uses for the first time. */
  | 'new-directory'
  | 'layout-file'
  /** The root: layout file and first directories. */
  | 'root'
  /** The directories above the root. */
  | 'above-root';

export interface FileFacts {
  /** Equal for two names of one file. */
  readonly identity: string;
  readonly sizeBytes: number;
  readonly linkCount: number;
}
