/** Opens what a descriptor of S3 buckets names. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { EngineError } from '../lib/errors.ts';
import type { Metrics } from '../lib/metrics.ts';
import { LmdbMetastore } from '../adapters/lmdb/metastore.ts';
import { S3Control } from '../adapters/s3/control.ts';
import { S3BucketStore } from '../adapters/s3/bucket-store.ts';
import { credentialSource } from '../adapters/s3/credential-sources.ts';
import type { Compute } from '../ports/compute.ts';
import type { S3BucketDescriptor } from './s3-components.ts';
import { checkPresent, otherMetastore, type Stores } from './stores.ts';

interface OpenOptions {
  readonly readOnly: boolean;
  readonly compute?: Compute;
  readonly metrics?: Metrics;
}

interface OpenBucket {
  readonly descriptor: S3BucketDescriptor;
  readonly store: S3BucketStore;
}

export async function s3Stores(
  root: string,
  mode: 'read' | 'write',
  { compute, metrics }: { readonly compute: Compute; readonly metrics: Metrics },
): Promise<Stores> {
  const directory = join(root, 'metastore');
  const readOnly = mode === 'read';
  if (readOnly) await checkPresent('components.metastore.root', root, directory);
  const buckets = new Map<string, OpenBucket>();
  const openOne = async (descriptor: S3BucketDescriptor): Promise<S3BucketStore> => {
    const known = buckets.get(descriptor.name);
    if (known !== undefined) {
      if (isDeepStrictEqual(known.descriptor, descriptor)) return known.store;
      throw new EngineError('INVALID_OPTION', 'a bucket of this name is configured otherwise', {
        details: { option: 'components.buckets', name: descriptor.name },
      });
    }
    const store = await openS3Bucket(descriptor, { readOnly, compute, metrics });
    buckets.set(descriptor.name, { descriptor, store });
    return store;
  };
  const metastore = await LmdbMetastore.open({ directory, readOnly });
  return {
    metastore,
    open: async (components) => {
      if (components.kind !== 's3' || components.metastore.root !== root) {
        const value = components.kind === 's3' ? components.metastore.root : components.kind;
        throw otherMetastore('components.metastore.root', value, root);
      }
      const opened: S3BucketStore[] = [];
      for (const descriptor of components.buckets) opened.push(await openOne(descriptor));
      return opened;
    },
    // A name does not say where a bucket is: those of earlier sets have to stay configured.
    openNamed: async () => undefined,
    close: async () => {
      const stores = [...buckets.values()].map(({ store }) => store);
      await Promise.all([metastore.close(), ...stores.map((store) => store.close())]);
    },
  };
}

/** Nothing is asked of the server yet. */
export async function openS3Bucket(
  { caFile, credentials, ...rest }: S3BucketDescriptor,
  { readOnly, compute, metrics }: OpenOptions,
): Promise<S3BucketStore> {
  return new S3BucketStore({
    ...rest,
    readOnly,
    metrics,
    sha256: compute && ((bytes) => compute.sha256(bytes)),
    credentials: credentialSource(credentials),
    ca: caFile === undefined ? undefined : await readCertificates(caFile),
  });
}

/** For what an engine does not ask. @throws EngineError BUCKET_REFUSED without the package for it. */
export async function openS3Control(descriptor: S3BucketDescriptor): Promise<S3Control> {
  const { name, bucket, region, endpoint, addressing, caFile, credentials } = descriptor;
  return S3Control.open({
    name,
    bucket,
    region,
    endpoint,
    addressing,
    credentials: credentialSource(credentials),
    ca: caFile === undefined ? undefined : await readCertificates(caFile),
  });
}

async function readCertificates(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new EngineError('INVALID_OPTION', 'the file of certificates cannot be read', {
      details: { option: 'components.buckets.caFile', value: path },
      cause: error,
    });
  }
}
