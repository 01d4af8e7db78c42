/** Three buckets in directories of one disk, two copies needed: the engine against bare files. */
import { join } from 'node:path';
import { directoryComponents } from '../src/engine/components.ts';
import { batchPayloadBytes, openLoadEngine, runLoad } from './_append-load.ts';
import type { LoadMode, LoadResult, OpenLoadEngine } from './_append-load.ts';
import { ALL_CREATE_STEPS, replayCreates, storePayload } from './_bare-files.ts';
import type { CreateSteps, PayloadLoop } from './_bare-files.ts';
import { CreateLog, meanConcurrency, peakConcurrency } from './_recorder.ts';
import type { RecordedCreate } from './_recorder.ts';
import { cpuSeconds, median, quantile, rounded, rowOf, type Pair, type Row } from './_rows.ts';
import { Workspace } from './_workspace.ts';

const BUCKETS = 3;
const COPY_QUORUM = 2;
const MIB = 1 << 20;
/** A fraction of what one round appends, so that back-pressure acts in most of it. */
const SATURATED_POOL_BYTES = 32 * MIB;
/** A benchmark that another program keeps from running for long is no reason to lose the lease. */
const SESSION_TIMEOUT_MILLIS = 120_000;

interface Scale {
  /** Before the first measured one: compilers need a thousand flights to be done. */
  readonly warmUpRounds: number;
  readonly rounds: number;
  /** Of one round. Every byte is on the disk three times, for the engine and for each floor. */
  readonly payloadBytes: number;
}

const FULL: Scale = { warmUpRounds: 3, rounds: 7, payloadBytes: 128 * MIB };
const SMOKE: Scale = { warmUpRounds: 1, rounds: 1, payloadBytes: 2 * MIB };

const PAYLOAD_SIZES = [64 << 10, 256 << 10, 512 << 10, MIB];
const PAYLOAD_CONCURRENCY = [8, 48];
/** Of all payload loops, so many of the fastest run in every round. */
const PAYLOAD_LOOPS_KEPT = 2;

export async function directoryRows(smoke: boolean): Promise<Row[]> {
  const scale = smoke ? SMOKE : FULL;
  const workspace = new Workspace();
  try {
    const loops = await bestPayloadLoops(workspace, scale);
    const rows: Row[] = [];
    for (const recordBytes of [100, 1024]) {
      for (const mode of ['closed', 'saturated'] as const) {
        const cell = new Cell(workspace, scale, recordBytes, mode);
        rows.push(...(await cell.measure(loops)));
      }
    }
    return rows;
  } finally {
    workspace.remove();
  }
}

/** Tries out what is fastest on this disk: file size, concurrency, page cache or not. */
async function bestPayloadLoops(workspace: Workspace, scale: Scale): Promise<PayloadLoop[]> {
  const tried: { readonly loop: PayloadLoop; readonly seconds: number }[] = [];
  for (const write of ['buffered', 'direct'] as const) {
    for (const sizeBytes of PAYLOAD_SIZES) {
      for (const concurrency of PAYLOAD_CONCURRENCY) {
        const loop = { sizeBytes, write, concurrency };
        const seconds = await storePayload(loop, scale.payloadBytes / 2, BUCKETS, () =>
          workspace.freshFolder(),
        );
        tried.push({ loop, seconds });
      }
      await workspace.cut();
    }
  }
  tried.sort((a, b) => a.seconds - b.seconds);
  return tried.slice(0, PAYLOAD_LOOPS_KEPT).map(({ loop }) => loop);
}

class Cell {
  readonly #workspace: Workspace;
  readonly #scale: Scale;
  readonly #recordBytes: number;
  readonly #mode: LoadMode;
  readonly #log = new CreateLog();
  readonly #results: LoadResult[] = [];
  /** Processor milliseconds for each MB of payload. */
  readonly #engineCpu: number[] = [];
  readonly #replayCpu: number[] = [];
  #creates: readonly RecordedCreate[] = [];

  constructor(workspace: Workspace, scale: Scale, recordBytes: number, mode: LoadMode) {
    this.#workspace = workspace;
    this.#scale = scale;
    this.#recordBytes = recordBytes;
    this.#mode = mode;
  }

  async measure(loops: readonly PayloadLoop[]): Promise<Row[]> {
    const folder = this.#workspace.freshFolder();
    const loaded = await openLoadEngine({
      components: directoryComponents({ root: join(folder, 'data'), buckets: BUCKETS }),
      settings: {
        copyQuorum: COPY_QUORUM,
        sessionTimeoutMillis: SESSION_TIMEOUT_MILLIS,
        ...(this.#mode === 'saturated' ? { poolBytes: SATURATED_POOL_BYTES } : {}),
      },
      wrap: (index, store) => this.#log.record(index, store),
    });
    const toReplay: Pair[] = [];
    const toPayload: Pair[] = [];
    try {
      for (let round = 0; round < this.#scale.warmUpRounds; round++) {
        await this.#appends(loaded);
        await this.#workspace.cut();
      }
      const steps = await this.#bestSteps();
      this.#results.length = 0;
      this.#engineCpu.length = 0;
      this.#replayCpu.length = 0;
      for (let round = 0; round < this.#scale.rounds; round++) {
        // Who comes first changes: the disk and the page cache are not in the same state for both.
        let engine = round % 2 === 0 ? await this.#appends(loaded) : 0;
        const replay = await this.#replay(steps);
        const payload = await this.#payload(loops);
        if (round % 2 === 1) engine = await this.#appends(loaded);
        toReplay.push({ floor: replay, engine });
        toPayload.push({ floor: payload, engine });
        await this.#workspace.cut();
      }
      return this.#rows(toReplay, toPayload, steps, loops);
    } finally {
      await loaded.close();
    }
  }

  /** One round of the engine; MB/s of acknowledged payload. */
  async #appends(loaded: OpenLoadEngine): Promise<number> {
    const payloadBytes = batchPayloadBytes(this.#recordBytes);
    const batches = Math.ceil(this.#scale.payloadBytes / payloadBytes);
    this.#log.clear();
    const cpu = process.cpuUsage();
    const result = await runLoad(loaded.streams, {
      recordBytes: this.#recordBytes,
      batches,
      mode: this.#mode,
    });
    await this.#log.idle();
    this.#creates = this.#log.creates.slice();
    this.#results.push(result);
    this.#engineCpu.push((cpuSeconds(cpu) * 1e9) / result.payloadBytes);
    return result.payloadBytes / result.seconds / 1e6;
  }

  async #bestSteps(): Promise<CreateSteps> {
    let best = ALL_CREATE_STEPS[0]!;
    let bestRate = 0;
    for (const steps of ALL_CREATE_STEPS) {
      const rate = await this.#replay(steps);
      if (rate > bestRate) [best, bestRate] = [steps, rate];
      await this.#workspace.cut();
    }
    return best;
  }

  async #replay(steps: CreateSteps): Promise<number> {
    const cpu = process.cpuUsage();
    const seconds = await replayCreates({
      creates: this.#creates,
      concurrency: this.#concurrency(),
      copyQuorum: COPY_QUORUM,
      steps,
      freshFolder: () => this.#workspace.freshFolder(),
    });
    const { payloadBytes } = this.#results.at(-1)!;
    this.#replayCpu.push((cpuSeconds(cpu) * 1e9) / payloadBytes);
    return payloadBytes / seconds / 1e6;
  }

  #concurrency(): number[] {
    return Array.from({ length: BUCKETS }, (_, bucket) => peakConcurrency(this.#creates, bucket));
  }

  async #payload(loops: readonly PayloadLoop[]): Promise<number> {
    let best = 0;
    const { payloadBytes } = this.#scale;
    for (const loop of loops) {
      const seconds = await storePayload(loop, payloadBytes / 2, BUCKETS, () =>
        this.#workspace.freshFolder(),
      );
      best = Math.max(best, payloadBytes / 2 / seconds / 1e6);
    }
    return best;
  }

  #rows(
    toReplay: readonly Pair[],
    toPayload: readonly Pair[],
    steps: CreateSteps,
    loops: readonly PayloadLoop[],
  ): Row[] {
    const of = (read: (result: LoadResult) => number): number =>
      rounded(median(this.#results.map(read)));
    const name = `directory K=3/W=2, ${this.#recordBytes} B, ${this.#mode}`;
    const details = {
      recordsPerSecond: of(({ records, seconds }) => records / seconds),
      ackP50Millis: of(({ ackMillis }) => quantile(ackMillis, 0.5)),
      ackP99Millis: of(({ ackMillis }) => quantile(ackMillis, 0.99)),
      creates: this.#creates.length,
      createKiB: rounded(median(this.#creates.map(({ sizeBytes }) => sizeBytes / 1024))),
      createsAtOnce: rounded(meanConcurrency(this.#creates)),
      createsAtOnceMax: this.#concurrency().join('+'),
    };
    return [
      rowOf(`${name}, of its creates replayed`, 'MB/s', toReplay, {
        target: 0.7,
        ...details,
        engineCpuMillisPerMB: rounded(median(this.#engineCpu)),
        floorCpuMillisPerMB: rounded(median(this.#replayCpu)),
        floorLoop: `${steps.write}, ${steps.directorySync} directory sync`,
      }),
      rowOf(`${name}, of the best payload rate`, 'MB/s', toPayload, {
        target: 0.5,
        ...details,
        floorLoop: loops
          .map((loop) => `${loop.write} ${loop.sizeBytes >> 10} KiB x ${loop.concurrency}`)
          .join(' or '),
      }),
    ];
  }
}
