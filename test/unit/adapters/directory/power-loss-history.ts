/**
 * Drives directory buckets of several processes over a file system that loses power, notes every
 * answer that must outlast the loss, and checks the notes against what is there afterwards.
 */
import { DirectoryBucketStore } from '../../../../src/adapters/directory/bucket-store.ts';
import type { SyncSite } from '../../../../src/adapters/directory/file-system.ts';
import { Prng } from '../../../../src/lib/prng.ts';
import { EXISTS_HEAD_BYTES, type BucketStore } from '../../../../src/ports/bucket-store.ts';
import { pattern } from '../../../contract/bucket-store/contract.ts';
import { processTable } from '../../../contract/bucket-store/fixtures.ts';
import { PowerLossFileSystem } from '../../../support/power-loss-fs.ts';

const ROOT = '/data/bucket';
const KEYS = 5;
const PROCESSES = 2;
const LIVES = 4;
/** Sizes of objects: several sectors, so that half a body is told from a whole one. */
const SIZES = [600, 1_500, 3_000, 9_000];

/** How often what the test is about came up. */
export interface Situations {
  created: number;
  exists: number;
  evidence: number;
  deleted: number;
  losses: number;
  /** Losses that hit calls under way. */
  interrupted: number;
}

export interface HistoryResult {
  readonly violations: string[];
  readonly situations: Situations;
}

interface Claim {
  /** The first bytes that were answered. */
  readonly head: Buffer;
  readonly why: string;
}

export async function runPowerLossHistory(
  seed: number,
  ignoreSync?: SyncSite,
): Promise<HistoryResult> {
  const history = new History(seed, ignoreSync);
  for (let life = 0; life < LIVES; life++) {
    await history.live(life);
    if (history.violations.length > 0) break;
  }
  return history;
}

class History implements HistoryResult {
  readonly violations: string[] = [];
  readonly situations: Situations = {
    created: 0,
    exists: 0,
    evidence: 0,
    deleted: 0,
    losses: 0,
    interrupted: 0,
  };
  readonly #prng: Prng;
  readonly #fileSystem: PowerLossFileSystem;
  /** What was answered to be there, and must be from then on. */
  readonly #present = new Map<string, Claim>();
  /** Keys whose deletion was asked for: true once it was answered. */
  readonly #deleted = new Map<string, boolean>();
  /** Every body anybody tried to store under a key. */
  readonly #bodies = new Map<string, Buffer[]>();
  /** Creations under way in this life, by key. */
  #creating = new Map<string, number>();
  #serial = 0;
  #boot = 0;

  constructor(seed: number, ignoreSync: SyncSite | undefined) {
    this.#prng = new Prng(seed);
    this.#fileSystem = new PowerLossFileSystem({
      prng: new Prng(seed + 1_000_000),
      ignoreSync,
      writeBytesMax: 5_000,
      hasDirectWrites: this.#prng.chance(0.5),
    });
  }

  /** From boot to loss; sometimes with a crash of the processes alone in between. */
  async live(life: number): Promise<void> {
    this.#boot++;
    if (!(await this.#work(`life ${life}`))) return;
    if (this.#prng.chance(0.4)) {
      this.#fileSystem.processCrash();
      this.#creating = new Map();
      if (!(await this.#work(`life ${life} after a crash`))) return;
    }
    this.#fileSystem.powerLoss(this.#prng.chance(0.5) ? this.#prng : undefined);
    this.#creating = new Map();
    this.situations.losses++;
    await this.#check();
  }

  /** Opens stores, sets many calls going and stops at a drawn moment. */
  async #work(where: string): Promise<boolean> {
    const stores: BucketStore[] = [];
    try {
      for (let index = 0; index < PROCESSES; index++) stores.push(await this.#openStore(index + 1));
    } catch (error) {
      this.violations.push(`${where}: the bucket does not open: ${String(error)}`);
      return false;
    }
    let running = 0;
    for (let call = 0; call < 14; call++) {
      running++;
      void this.#act(this.#prng.pick(stores)).finally(() => running--);
    }
    const turns = this.#prng.below(240);
    for (let turn = 0; turn < turns && running > 0; turn++) await Promise.resolve();
    if (this.#prng.chance(0.2)) await new Promise(setImmediate);
    if (running > 0) this.situations.interrupted++;
    return true;
  }

  #openStore(pid: number): Promise<DirectoryBucketStore> {
    const alive = new Set(Array.from({ length: PROCESSES }, (_, index) => index + 1));
    return DirectoryBucketStore.open({
      root: ROOT,
      processes: processTable(pid, alive, `boot-${this.#boot}`),
      fileSystem: this.#fileSystem.mount(),
      concurrentCreates: 4,
    });
  }

  async #act(store: BucketStore): Promise<void> {
    const key = `e${this.#prng.below(3)}/${this.#prng.below(KEYS)}`;
    const draw = this.#prng.fraction();
    if (draw < 0.5) await this.#create(store, key);
    else if (draw < 0.9) await this.#read(store, key);
    else await this.#delete(store, key);
  }

  async #create(store: BucketStore, key: string): Promise<void> {
    if (this.#deleted.has(key)) return;
    const body = Buffer.from(pattern(this.#serial++, this.#prng.pick(SIZES)));
    this.#bodies.set(key, [...(this.#bodies.get(key) ?? []), body]);
    const creating = this.#creating;
    creating.set(key, (creating.get(key) ?? 0) + 1);
    const outcome = await store.createOnly(key, body);
    creating.set(key, creating.get(key)! - 1);
    if (outcome.kind === 'created') {
      this.situations.created++;
      this.#claim(key, body, 'created');
    } else if (outcome.kind === 'exists') {
      this.situations.exists++;
      this.#claim(key, Buffer.from(outcome.head), 'exists');
    }
  }

  async #read(store: BucketStore, key: string): Promise<void> {
    const outcome = await store.readHead(key, EXISTS_HEAD_BYTES, { evidence: true });
    if (outcome.kind !== 'found') return;
    this.situations.evidence++;
    this.#claim(key, Buffer.from(outcome.bytes), 'evidence');
  }

  async #delete(store: BucketStore, key: string): Promise<void> {
    // Deleted are only objects that nobody is about to create.
    if ((this.#creating.get(key) ?? 0) > 0 || !this.#present.has(key)) return;
    this.#deleted.set(key, this.#deleted.get(key) ?? false);
    this.#present.delete(key);
    const outcome = await store.delete(key);
    if (outcome.kind === 'unknown') return;
    this.situations.deleted++;
    this.#deleted.set(key, true);
  }

  #claim(key: string, head: Buffer, why: string): void {
    if (this.#deleted.has(key)) return;
    const earlier = this.#present.get(key);
    if (earlier !== undefined && !startAlike(earlier.head, head)) {
      this.violations.push(`${key}: ${why} differs from ${earlier.why}`);
    }
    if (earlier === undefined || earlier.head.length < head.length) {
      this.#present.set(key, { head, why });
    }
  }

  async #check(): Promise<void> {
    let store: BucketStore;
    try {
      store = await this.#openStore(99);
    } catch (error) {
      this.violations.push(`the bucket does not open again: ${String(error)}`);
      return;
    }
    for (let epoch = 0; epoch < 3; epoch++) {
      for (let slot = 0; slot < KEYS; slot++) await this.#checkKey(store, `e${epoch}/${slot}`);
    }
    await store.close();
    // Nobody waits for the close of a file that was only read.
    await new Promise(setImmediate);
    if (this.#fileSystem.openCount > 0) this.violations.push('a closed store leaves files open');
  }

  async #checkKey(store: BucketStore, key: string): Promise<void> {
    const outcome = await store.readHead(key, 1 << 20);
    const claim = this.#present.get(key);
    if (outcome.kind === 'unknown') {
      this.violations.push(`${key}: unreadable`);
      return;
    }
    if (outcome.kind === 'absent') {
      if (claim !== undefined) this.violations.push(`${key}: lost after ${claim.why}`);
      return;
    }
    const bytes = Buffer.from(outcome.bytes);
    if (this.#deleted.get(key) === true) this.violations.push(`${key}: back after its deletion`);
    if (!(this.#bodies.get(key) ?? []).some((body) => body.equals(bytes))) {
      this.violations.push(`${key}: torn`);
    }
    if (claim !== undefined && !startAlike(claim.head, bytes)) {
      this.violations.push(`${key}: not what was answered as ${claim.why}`);
    }
  }
}

function startAlike(a: Buffer, b: Buffer): boolean {
  const length = Math.min(a.length, b.length);
  return a.subarray(0, length).equals(b.subarray(0, length));
}
