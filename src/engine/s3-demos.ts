/** How a demo's objects on S3 are known as a demo's: by a mark that it makes before anything else. */
import * as v from 'valibot';
import type { ProcessIdentity } from '../ports/processes.ts';
import { systemProcesses } from '../adapters/system/processes.ts';
import type { S3Components } from './s3-components.ts';
import { emptyS3 } from './s3-scratch.ts';
import { openS3Bucket } from './s3-stores.ts';

/** First in front of the folders of all demos. */
export const DEMO_PREFIX = 'demo-';
const SEGMENT = /^demo-[0-9a-f]{12}$/;
/** Within the folder of a demo; no key of an engine is like it. */
export const DEMO_MARK = 'demo.json';
export const DEMO_MARK_BYTES_MAX = 4_096;

const UNMARK_MILLIS = 5_000;

const text = v.pipe(v.string(), v.maxLength(256));
const demoMark = v.strictObject({
  asterlog: v.literal('demo'),
  demo: v.pipe(v.string(), v.regex(SEGMENT)),
  // A copy of it elsewhere is whoever's made it.
  bucket: text,
  prefix: v.pipe(v.string(), v.maxLength(512)),
  process: v.strictObject({
    bootId: text,
    hostName: text,
    pidNamespace: text,
    pid: v.pipe(v.number(), v.safeInteger()),
    startTime: text,
  }),
});

export function isDemoSegment(segment: string): boolean {
  return SEGMENT.test(segment);
}

export interface DemoSite {
  /** `demo-` and twelve hexadecimal digits. */
  readonly demo: string;
  readonly bucket: string;
  /** Of its objects in this bucket, its own folder at the end. */
  readonly prefix: string;
}

export function encodeDemoMark(site: DemoSite, process: ProcessIdentity): Uint8Array {
  const { demo, bucket, prefix } = site;
  return Buffer.from(JSON.stringify({ asterlog: 'demo', demo, bucket, prefix, process }));
}

/** The process that ran the demo of this place; undefined: it is no mark of it. */
export function parseDemoMark(json: string, site: DemoSite): ProcessIdentity | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  const parsed = v.safeParse(demoMark, value);
  if (!parsed.success) return undefined;
  const { demo, bucket, prefix, process } = parsed.output;
  const isHere = demo === site.demo && bucket === site.bucket && prefix === site.prefix;
  return isHere ? process : undefined;
}

/**
 * Marks the place of each of these buckets as that of a demo of this process. Where one cannot be marked, none stays.
 *
 * @param demo - `demo-` and twelve hexadecimal digits, which nobody had before; their prefixes end with it.
 * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
 */
export async function markDemo(components: S3Components, demo: string): Promise<void> {
  const process = systemProcesses().self();
  const outcomes = await Promise.all(
    components.buckets.map(async (descriptor) => {
      const { bucket, prefix } = descriptor;
      const store = await openS3Bucket(descriptor, { readOnly: false });
      try {
        return await store.createOnly(DEMO_MARK, encodeDemoMark({ demo, bucket, prefix }, process));
      } finally {
        await store.close();
      }
    }),
  );
  const failed =
    outcomes.find(({ kind }) => kind === 'refused') ??
    outcomes.find(({ kind }) => kind === 'unknown');
  if (failed === undefined || !('cause' in failed)) return;
  // What failed is the error to report.
  await emptyS3(components, DEMO_MARK, { timeoutMillis: UNMARK_MILLIS }).catch(() => undefined);
  throw failed.cause;
}
