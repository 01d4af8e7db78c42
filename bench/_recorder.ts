/** Notes every creation that the engine asks of its buckets, so that a floor can replay them. */
import type { BucketStore, CallOptions, CreateOutcome } from '../src/ports/bucket-store.ts';

/** One object that the engine created in one bucket. */
export interface RecordedCreate {
  readonly bucket: number;
  /** Equal for the copies of one flight. */
  readonly key: string;
  readonly sizeBytes: number;
  readonly startedAt: number;
  readonly endedAt: number;
}

export class CreateLog {
  readonly creates: RecordedCreate[] = [];
  #underWay = 0;
  #onIdle: (() => void) | undefined;

  /** Resolves when no creation is under way: also the copies that no acknowledgement waits for. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  begin(): number {
    this.#underWay++;
    return performance.now();
  }

  /** @param create - undefined: it is not known to be stored, and will be tried again. */
  end(create: RecordedCreate | undefined): void {
    if (create !== undefined) this.creates.push(create);
    if (--this.#underWay > 0) return;
    this.#onIdle?.();
    this.#onIdle = undefined;
  }

  clear(): void {
    this.creates.length = 0;
  }

  /** Stands in front of a bucket. */
  record(bucket: number, store: BucketStore): BucketStore {
    return new RecordingBucket(this, bucket, store);
  }
}

class RecordingBucket implements BucketStore {
  readonly wantsPages: boolean;
  readonly #log: CreateLog;
  readonly #bucket: number;
  readonly #store: BucketStore;

  constructor(log: CreateLog, bucket: number, store: BucketStore) {
    this.wantsPages = store.wantsPages === true;
    this.#log = log;
    this.#bucket = bucket;
    this.#store = store;
  }

  get name(): string {
    return this.#store.name;
  }

  async createOnly(key: string, bytes: Uint8Array, options?: CallOptions): Promise<CreateOutcome> {
    const sizeBytes = bytes.byteLength;
    const startedAt = this.#log.begin();
    const outcome = await this.#store.createOnly(key, bytes, options);
    const isStored = outcome.kind === 'created' || outcome.kind === 'exists';
    const endedAt = performance.now();
    this.#log.end(
      isStored ? { bucket: this.#bucket, key, sizeBytes, startedAt, endedAt } : undefined,
    );
    if (outcome.kind === 'refused') throw outcome.cause;
    return outcome;
  }

  readHead: BucketStore['readHead'] = (...args) => this.#store.readHead(...args);
  readRange: BucketStore['readRange'] = (...args) => this.#store.readRange(...args);
  delete: BucketStore['delete'] = (...args) => this.#store.delete(...args);
  deleteMany: BucketStore['deleteMany'] = (...args) => this.#store.deleteMany(...args);
  list: BucketStore['list'] = (...args) => this.#store.list(...args);
  probe: BucketStore['probe'] = (...args) => this.#store.probe(...args);
  close: BucketStore['close'] = () => this.#store.close();
}

/** The most creations that were under way in the bucket at once. */
export function peakConcurrency(creates: readonly RecordedCreate[], bucket: number): number {
  const edges: { readonly at: number; readonly step: number }[] = [];
  for (const create of creates) {
    if (create.bucket !== bucket) continue;
    edges.push({ at: create.startedAt, step: 1 }, { at: create.endedAt, step: -1 });
  }
  edges.sort((a, b) => a.at - b.at || a.step - b.step);
  let now = 0;
  let peak = 0;
  for (const { step } of edges) {
    now += step;
    peak = Math.max(peak, now);
  }
  return peak;
}

/** Creations under way in all buckets, averaged over the time of all of them. */
export function meanConcurrency(creates: readonly RecordedCreate[]): number {
  let busy = 0;
  let start = Infinity;
  let end = 0;
  for (const { startedAt, endedAt } of creates) {
    busy += endedAt - startedAt;
    start = Math.min(start, startedAt);
    end = Math.max(end, endedAt);
  }
  return busy / (end - start);
}
