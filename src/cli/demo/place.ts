/** Where a demo keeps its data, and what becomes of it. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { registeredSets } from '../../engine/identity-check.ts';
import type { S3Components } from '../../engine/s3-components.ts';
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
 * one would find them foreign.
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
  try {
    const given = s3ComponentsOf({ ...options, root })!;
    const components = isTemporary
      ? withinS3(given, `demo-${randomBytes(6).toString('hex')}`)
      : given;
    const text = placeOf(components);
    const removes = isTemporary && options.keep !== true;
    return {
      store: { root: rootOf(components), buckets: components.buckets.length, components },
      text,
      leave: async () => {
        if (!removes) return `the data is in ${text}`;
        const hasBegun = await mayHaveBegun(root);
        await rm(root, { recursive: true, force: true });
        const wait = { timeoutMillis: LEAVE_MILLIS };
        // What failed before is the error to report; this only says what it left behind.
        const left = await emptyS3(components, wait).catch(() => components.buckets.length);
        return left === 0 || !hasBegun
          ? undefined
          : `objects are left in ${left} buckets of ${text}`;
      },
    };
  } catch (error) {
    if (isTemporary) await rm(root, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Objects are stored only after the buckets are registered as a set; those of the probe before are
 * removed by it.
 */
async function mayHaveBegun(root: string): Promise<boolean> {
  try {
    return ((await registeredSets(root)) ?? []).length > 0;
  } catch {
    return true;
  }
}

async function demoRoot(given: string | undefined) {
  const root = given ?? (await mkdtemp(join(tmpdir(), 'asterlog-demo-')));
  return { root, isTemporary: given === undefined };
}
