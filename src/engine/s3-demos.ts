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

export function encodeDemoMark(demo: string, process: ProcessIdentity): Uint8Array {
  return Buffer.from(JSON.stringify({ asterlog: 'demo', demo, process }));
}

/** The process that ran this demo; undefined: it is no mark of it. */
export function parseDemoMark(json: string, demo: string): ProcessIdentity | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  const parsed = v.safeParse(demoMark, value);
  return parsed.success && parsed.output.demo === demo ? parsed.output.process : undefined;
}

/**
 * Marks the place of each of these buckets as that of a demo of this process. Where one cannot be marked, none stays.
 *
 * @param demo - `demo-` and twelve hexadecimal digits, which nobody had before; their prefixes end with it.
 * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
 */
export async function markDemo(components: S3Components, demo: string): Promise<void> {
  const mark = encodeDemoMark(demo, systemProcesses().self());
  const outcomes = await Promise.all(
    components.buckets.map(async (descriptor) => {
      const store = await openS3Bucket(descriptor, { readOnly: false });
      try {
        return await store.createOnly(DEMO_MARK, mark);
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
