/**
 * Stores one flight in one bucket: creates, resolves what storage left open, counts the copy only in
 * a bucket that shows its identity. Source: DESIGN "Append (A)", A4; "Bucket identity".
 */
import { EXISTS_HEAD_BYTES, type BucketStore } from '../src/ports/bucket-store.ts';
import { inspectSlotObject, sameFlight } from '../src/format/slot-object.ts';
import { parsePreamble, type Preamble } from '../src/format/preamble.ts';
import { assert } from '../src/lib/assert.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { sleep } from '../src/lib/wait.ts';
import type { SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';

export type CopyResult =
  /** Our bytes are there, in a bucket of the set. */
  | { readonly kind: 'stored' }
  /** Something else is there, or the bucket is not the one it was: the slot may be lost. */
  | { readonly kind: 'lost'; readonly found: 'poison' | 'foreign' | 'corrupt' }
  /** Given up by its signal, or the bucket lost its identity: not counted, not known. */
  | { readonly kind: 'uncounted' };

export interface CopyTask {
  readonly bucket: SetBucket;
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly expected: {
    readonly star: string;
    readonly epoch: number;
    readonly slot: number;
    readonly nonce: string;
  };
  readonly signal: AbortSignal;
  /** Told about each attempt that did not end in an answer, for metrics and error causes. */
  onTrouble(bucket: BucketStore, cause: EngineError): void;
}

const RETRY = { firstMillis: 5, maxMillis: 1_000 };

/** Never rejects. Resolves only when no request reads `bytes` any more. */
export async function storeCopy(
  ports: Pick<StarPorts, 'clock' | 'random'>,
  task: CopyTask,
): Promise<CopyResult> {
  const { bucket, signal } = task;
  bucket.refresh();
  for (let attempt = 0; !signal.aborted; attempt++) {
    const settled = await attemptCreate(task);
    if (settled?.kind === 'stored') return await counted(ports, task);
    if (settled !== undefined) return settled;
    await pause(ports, attempt, signal);
  }
  return { kind: 'uncounted' };
}

/** One create and, when its outcome is open, one read-back; undefined: still open. */
async function attemptCreate(task: CopyTask): Promise<CopyResult | undefined> {
  const { bucket, key, bytes, signal } = task;
  const outcome = await bucket.store.createOnly(key, bytes, { signal });
  switch (outcome.kind) {
    case 'created':
      return { kind: 'stored' };
    case 'exists':
      return judge(task, outcome.head, outcome.sizeBytes);
    case 'refused':
      task.onTrouble(bucket.store, outcome.cause);
      return undefined;
    case 'unknown': {
      if (signal.aborted) return undefined;
      task.onTrouble(bucket.store, outcome.cause);
      // A4: an absence proves nothing here, the request may still arrive; identical bytes go out again.
      const read = await bucket.store.readHead(key, EXISTS_HEAD_BYTES, { evidence: true, signal });
      return read.kind === 'found' ? judge(task, read.bytes, read.sizeBytes) : undefined;
    }
  }
}

function judge(task: CopyTask, head: Uint8Array, sizeBytes: number): CopyResult {
  const object = inspectSlotObject(head, sizeBytes, task.expected);
  if (object.kind !== 'flight') return { kind: 'lost', found: object.kind };
  return sameFlight(object.preamble, ownPreamble(task.bytes))
    ? { kind: 'stored' }
    : { kind: 'lost', found: 'corrupt' };
}

function ownPreamble(bytes: Uint8Array): Preamble {
  const parsed = parsePreamble(bytes);
  assert(parsed.ok, 'A2 a sealed flight parses');
  return parsed.preamble;
}

async function counted(
  ports: Pick<StarPorts, 'clock' | 'random'>,
  { bucket, signal }: CopyTask,
): Promise<CopyResult> {
  for (let attempt = 0; !bucket.isFresh(); attempt++) {
    const verdict = await bucket.confirmShared();
    if (verdict === 'confirmed') break;
    if (verdict === 'lost' || signal.aborted) return { kind: 'uncounted' };
    await pause(ports, attempt, signal);
  }
  return { kind: 'stored' };
}

async function pause(
  ports: Pick<StarPorts, 'clock' | 'random'>,
  attempt: number,
  signal: AbortSignal,
): Promise<void> {
  await sleep(ports.clock, backoffMillis(ports.random, attempt, RETRY), signal).catch(
    () => undefined,
  );
}
