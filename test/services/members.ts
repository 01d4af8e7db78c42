/**
 * Processes with an engine each that share streams over the three zones and a metastore on this machine.
 * What they were told is durable is kept here, apart from all that is killed, and compared in the end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Ledger } from '../../src/cli/takeover/ledger.ts';
import { Member } from '../../src/cli/takeover/member-process.ts';
import { hostMillis } from '../../src/cli/takeover/reports.ts';
import { openReader, type ReadOnlyEngine } from '../../src/index.ts';
import { expectClean, killMember } from '../support/member-verdict.ts';
import { removeFolder, scratchFolder } from './scratch.ts';
import type { ThreeZones } from './three-zones.ts';

const STREAMS = ['s1', 's2', 's3'];
/** A machine under load is slow; what does not come to pass at all is found all the same. */
const PATIENCE_MILLIS = 150_000;

export class Members {
  readonly ledger = new Ledger(STREAMS);
  readonly bucket: string;
  readonly #zones: ThreeZones;
  readonly #root: string;
  readonly #members = new Map<string, Member>();
  readonly #over = new Set<Member>();
  readonly #counts = { detected: 0, takeovers: 0 };
  #runs = 0;

  private constructor(zones: ThreeZones, bucket: string, root: string) {
    this.#zones = zones;
    this.bucket = bucket;
    this.#root = root;
  }

  static async prepare(zones: ThreeZones, bucket: string): Promise<Members> {
    await zones.createBuckets(bucket);
    return new Members(zones, bucket, await scratchFolder());
  }

  /** Starts a process and waits until it appends. */
  async start(star: string, endpoints = this.#zones.endpoints): Promise<void> {
    const store = {
      components: this.#zones.components(this.bucket, this.#root, endpoints),
      buckets: 3,
      copies: 2,
      basin: 'default',
      sessionTimeout: 10_000,
      closeTimeout: 60_000,
      star,
    };
    const member = new Member(
      {
        store,
        settings: { flightBytes: 16 * 1024, absorbBytes: 128 * 1024 },
        run: ++this.#runs,
        streams: STREAMS,
        producers: STREAMS.length * 2,
        batchRecords: 10,
        files: [],
        retryMillis: PATIENCE_MILLIS,
        checkTailMillis: 100,
      },
      (report) => {
        this.ledger.take(report);
        if (report.kind === 'detected') this.#counts.detected++;
        if (report.kind === 'takeovers') this.#counts.takeovers += report.figures.streams;
      },
      { peerToken: 'a token that all members of this test share' },
    );
    this.#members.set(star, member);
    void member.process.ended.then(() => this.#over.add(member));
    let appends = false;
    void member.appending.then(() => (appends = true));
    await this.until(`${star} appends`, () => appends);
  }

  async kill(star: string): Promise<void> {
    const member = this.#members.get(star)!;
    this.#members.delete(star);
    await killMember(member);
  }

  /** Waits until every stream has been acknowledged some more from now on. */
  async served(): Promise<void> {
    const since = hostMillis();
    const isServed = (): boolean => this.ledger.streamsAcknowledgedSince(since) === STREAMS.length;
    await this.until('every stream is served', isServed);
  }

  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = performance.now() + PATIENCE_MILLIS;
    while (!(await condition())) {
      for (const [star, member] of this.#members) {
        if (this.#over.has(member)) throw await endOf(star, member);
      }
      if (performance.now() > deadline) throw new Error(`in vain waited until ${what}`);
      await sleep(50);
    }
  }

  async reading<T>(star: string, read: (reader: ReadOnlyEngine) => Promise<T>): Promise<T> {
    const components = this.#zones.components(this.bucket, this.#root);
    await using reader = await openReader({ components, settings: { star } });
    return await read(reader);
  }

  get components() {
    return this.#zones.components(this.bucket, this.#root);
  }

  /** Ends all processes in order and looks for what was lost, reused, doubled, out of order or stale. */
  async judge(name: string): Promise<{ readonly takeovers: number; readonly detected: number }> {
    for (const [star, member] of this.#members) {
      member.process.stop();
      const { exitCode } = await member.process.ended;
      if (exitCode !== 0) throw await endOf(star, member);
    }
    this.#members.clear();
    const counts = this.#counts;
    return this.reading('reader', (reader) => expectClean(name, this.ledger, reader, counts));
  }

  async dispose(): Promise<void> {
    for (const { process } of this.#members.values()) {
      process.kill();
      await process.ended;
    }
    await removeFolder(this.#root);
  }
}

async function endOf(star: string, { process, failure }: Member): Promise<Error> {
  const { exitCode, signal, stderr } = await process.ended;
  return new Error(`${star} ended early: ${JSON.stringify({ exitCode, signal, failure, stderr })}`);
}
