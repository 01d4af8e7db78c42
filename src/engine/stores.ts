/** What a descriptor of components opens. */
import { access } from 'node:fs/promises';
import { EngineError } from '../lib/errors.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';
import type { Components } from './components.ts';

export interface Stores {
  readonly metastore: Metastore;
  open(components: Components): Promise<readonly BucketStore[]>;
  /** A bucket that an earlier set names and that is not configured any more, if it is still there. */
  openNamed(name: string): Promise<BucketStore | undefined>;
  close(): Promise<void>;
}

export function otherMetastore(option: string, value: string, expected: string): EngineError {
  return new EngineError('INVALID_OPTION', 'a roll keeps the metastore: only buckets may change', {
    details: { option, value, expected },
  });
}

/** Looking at data creates none. */
export async function checkPresent(option: string, root: string, directory: string): Promise<void> {
  if (await isPresent(directory)) return;
  throw new EngineError('INVALID_OPTION', 'this directory holds no data', {
    details: { option, value: root },
  });
}

export async function isPresent(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
