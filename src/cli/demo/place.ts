/** Where a demo keeps its data, and what becomes of it. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { S3Components } from '../../engine/s3-components.ts';
import { DEMO_MARK, DEMO_PREFIX, markDemo } from '../../engine/s3-demos.ts';
import { emptyS3, withinS3 } from '../../engine/s3-scratch.ts';
import { placeOf, rootOf, s3ComponentsOf } from '../components.ts';

interface PlaceOptions {
  readonly root?: string;
  readonly buckets: number;
  readonly s3?: string;
  readonly endpoint?: string;
  readonly region?: string;
  readonly keep?: boolean;
}

export interface DemoPlace {
  readonly store: {
    readonly root: string;
    readonly buckets: number;
    readonly components?: S3Components;
  };
  /** For people. */
  readonly text: string;
  /** Removes what is not to stay; says where the rest is. Does not reject. */
  leave(): Promise<string | undefined>;
}

/** Buckets are emptied in this time, or keep their objects. */
const LEAVE_MILLIS = 60_000;

/**
 * With a data directory of the caller the data goes there and stays. Without one it lies in a new
 * directory, and in buckets on S3 under a new prefix: objects are told apart by a metastore, and another
 * one would find them foreign. What is to be removed is marked as a demo's, for whoever finds it when this
 * process was killed.
 *
 * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE where a bucket cannot be marked.
 */
export async function demoPlace(options: PlaceOptions): Promise<DemoPlace> {
  if (options.s3 === undefined) {
    s3ComponentsOf(options);
    const { root, isTemporary } = await demoRoot(options.root);
    const removes = isTemporary && options.keep !== true;
    return {
      store: { root, buckets: options.buckets },
      text: root,
      leave: async () => {
        if (!removes) return `the data is in ${root}`;
        await rm(root, { recursive: true, force: true });
        return undefined;
      },
    };
  }
  return s3Place(options);
}

async function s3Place(options: PlaceOptions): Promise<DemoPlace> {
  const { root, isTemporary } = await demoRoot(options.root);
  const removes = isTemporary && options.keep !== true;
  try {
    const given = s3ComponentsOf({ ...options, root })!;
    const demo = `${DEMO_PREFIX}${randomBytes(6).toString('hex')}`;
    const components = isTemporary ? withinS3(given, demo) : given;
    const text = placeOf(components);
    const wait = { timeoutMillis: LEAVE_MILLIS };
    if (removes) await markDemo(components, demo);
    return {
      store: { root: rootOf(components), buckets: components.buckets.length, components },
      text,
      leave: async () => {
        if (!removes) return `the data is in ${text}`;
        await rm(root, { recursive: true, force: true });
        // What failed before is the error to report; this only says what it left behind.
        const left = await emptyS3(components, DEMO_MARK, wait).catch(
          () => components.buckets.length,
        );
        if (left === 0) return undefined;
        return `objects are left in ${left} buckets of ${text}: asterlog buckets clean removes them`;
      },
    };
  } catch (error) {
    if (isTemporary) await rm(root, { recursive: true, force: true });
    throw error;
  }
}

async function demoRoot(given: string | undefined) {
  const root = given ?? (await mkdtemp(join(tmpdir(), 'asterlog-demo-')));
  return { root, isTemporary: given === undefined };
}
