/** One bucket as all processes of a world share it: its objects, whether it can be reached, who watches. */
import type { Prng } from '../lib/prng.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { BucketCall, BucketFate } from './bucket-fates.ts';
import { assertProcessName } from './check.ts';
import type { Scheduler } from './scheduler.ts';

/** Sees every call at its three moments. Must not throw but for a broken rule. */
export interface BucketObserver {
  /** A process makes the call. */
  bucketSent?(call: BucketCall): void;
  /** What was drawn for the call. */
  bucketFate?(call: BucketCall, fate: BucketFate): void;
  /** The call reaches the store, perhaps long after. */
  bucketApplied?(call: BucketCall, outcome: { readonly kind: string }): void;
  /** The process hears the outcome. */
  bucketAnswered?(call: BucketCall, outcome: { readonly kind: string }): void;
  bucketWiped?(bucket: string): void;
}

export interface BucketServerOptions {
  readonly name: string;
  readonly scheduler: Scheduler;
  /** Makes an empty bucket, at the start and after a wipe. */
  readonly create: () => BucketStore;
  readonly observers?: readonly BucketObserver[];
}

export class BucketServer {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly observers: BucketObserver[];
  readonly prng: Prng;
  /** Multiplies every latency: one slow bucket among fast ones. */
  slowness = 1;
  readonly #create: () => BucketStore;
  readonly #cutLinks = new Set<string>();
  #store: BucketStore;
  #isDown = false;

  constructor(options: BucketServerOptions) {
    this.name = options.name;
    this.scheduler = options.scheduler;
    this.observers = [...(options.observers ?? [])];
    this.prng = options.scheduler.prng(`bucket ${options.name}`);
    this.#create = options.create;
    this.#store = options.create();
  }

  /** The stored objects themselves, without faults: for checkers. */
  get store(): BucketStore {
    return this.#store;
  }

  isReachableFrom(process: string): boolean {
    return !this.#isDown && !this.#cutLinks.has(process);
  }

  /** Nobody reaches the bucket until `recover`. */
  goDown(): void {
    this.#isDown = true;
    this.scheduler.note(`${this.name} goes down`);
  }

  recover(): void {
    this.#isDown = false;
    this.#cutLinks.clear();
    this.scheduler.note(`${this.name} is reachable`);
  }

  /** One process, meant by its name, does not reach the bucket until `recover` or `mendLink`. */
  cutLink(process: string): void {
    assertProcessName(process);
    this.#cutLinks.add(process);
    this.scheduler.note(`${this.name} is cut off from ${process}`);
  }

  mendLink(process: string): void {
    assertProcessName(process);
    this.#cutLinks.delete(process);
    this.scheduler.note(`${this.name} is reachable from ${process}`);
  }

  /** Replaces the bucket by an empty one of the same name. */
  wipe(): void {
    this.#store = this.#create();
    this.scheduler.note(`${this.name} is wiped`);
    for (const observer of this.observers) observer.bucketWiped?.(this.name);
  }

  /** Replaces one object's bytes, as damage at rest does. False when there is no such object. */
  async damage(key: string, change: (bytes: Uint8Array) => Uint8Array): Promise<boolean> {
    const found = await this.#store.readHead(key, Number.MAX_SAFE_INTEGER);
    if (found.kind !== 'found') return false;
    await this.#store.delete(key);
    await this.#store.createOnly(key, change(found.bytes.slice()));
    this.scheduler.note(`${this.name} damages ${key}`);
    return true;
  }

  /** Flips one bit of one object. */
  flipBit(key: string, bit: number): Promise<boolean> {
    return this.damage(key, (bytes) => {
      const at = Math.floor(bit / 8) % bytes.length;
      bytes[at] = bytes[at]! ^ (1 << (bit % 8));
      return bytes;
    });
  }
}
