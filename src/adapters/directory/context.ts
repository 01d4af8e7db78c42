import type { SyncedDirectory } from './synced-directory.ts';
import type { Directories } from './directories.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import type { Health } from './health.ts';
import type { ObjectWriter } from './object-writer.ts';
import type { TempFiles } from './temp-files.ts';

/** What the calls of one open bucket share. */
export interface BucketContext {
  readonly name: string;
  readonly readOnly: boolean;
  readonly fileSystem: DirectoryFileSystem;
  readonly health: Health;
  readonly directories: Directories;
  readonly temps: TempFiles;
  readonly writer: ObjectWriter;
  /** Path and identity of `objects/` when the bucket was opened. */
  readonly objects: SyncedDirectory;
  readonly objectsIdentity: string;
}
