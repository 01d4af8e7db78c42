/** How much of what bare loops put into the same buckets is left behind a whole engine. */
import { runLoad, type LoadResult } from './_append-load.ts';
import { cpuSeconds, median, quantile, rounded, rowOf, type Pair, type Row } from './_rows.ts';
import { nameOf, openS3Engine, type S3Engine, type S3Place, type Shape } from './_s3-engine.ts';
import { BareLoop, type BareFlight } from './_s3-floor.ts';
import type { Sink } from './_s3-sink.ts';
import type { Workspace } from './_workspace.ts';

const MIB = 1 << 20;
/** Of the payload, in a quarter of a flight at most. */
const BATCH_BYTES_MAX = 128 << 10;
const BATCH_RECORDS_MAX = 1_000;
const WARM_UP_BYTES_MAX = 64e6;
/** Windows of batches in flight: one stored, and as much to go on with. */
const WINDOWS_IN_FLIGHT = 2;
/** And in memory, so that nobody waits for it; most of it would be a cache for readers otherwise. */
const WINDOWS_IN_MEMORY = 3;
const POOL_BYTES_MIN = 32 * MIB;

export interface Cell {
  readonly shape: Shape;
  readonly recordBytes: number;
  readonly flightBytes: number;
  /** Of the server; 1 % of the requests take longer where there is one. */
  readonly serviceMillis: number;
}

export interface Scale {
  readonly rounds: number;
  /** Of one engine's turn in a round. */
  readonly seconds: number;
  /** For connections, memory and compilers, which know most of it from the rows before. */
  readonly warmUpFlights: number;
  /** Memory that the engine touches for the first time costs more than all that it does with it. */
  readonly fillsPool: boolean;
}

export const SLOW_SHARE = 0.01;
export const SLOW_MILLIS = 400;
/** P of the engine, and as many flights at once for the loops. */
export const WINDOW = 16;

interface Turn {
  readonly rate: number;
  readonly cpuMillisPerMB: number;
}

type Floor = 'bare' | 'working';

interface Round {
  readonly engine: Turn;
  readonly floors: ReadonlyMap<Floor, Turn>;
}

export function cellName({ shape, recordBytes, flightBytes, serviceMillis }: Cell): string {
  const size = sizeName(flightBytes);
  return `${nameOf(shape)}, ${recordBytes} B in ${size}, ${serviceMillis} ms`;
}

export function sizeName(bytes: number): string {
  return bytes < MIB ? `${bytes >> 10} KiB` : `${bytes / MIB} MiB`;
}

/** The sink with its service of this cell. */
export async function throughputRows(
  workspace: Workspace,
  sink: Sink,
  place: S3Place,
  cell: Cell,
  scale: Scale,
): Promise<Row[]> {
  const { shape, serviceMillis } = cell;
  await sink.forget();
  await sink.serve({
    buckets: shape.buckets,
    millis: serviceMillis,
    ...(serviceMillis > 0 ? { slowShare: SLOW_SHARE, slowMillis: SLOW_MILLIS } : {}),
  });
  return cellRows(workspace, sink, place, cell, scale);
}

/** Of any server; one that is not the sink checks signatures, which only the working loop has. */
export async function cellRows(
  workspace: Workspace,
  sink: Sink | undefined,
  place: S3Place,
  cell: Cell,
  scale: Scale,
): Promise<Row[]> {
  const { shape, recordBytes, flightBytes } = cell;
  const engine = await openS3Engine(workspace, place, shape, {
    flightBytes,
    window: WINDOW,
    poolBytes: poolBytesOf(cell),
  });
  const common = { ...place, ...shape, concurrency: WINDOW };
  const loops = new Map<Floor, BareLoop>();
  if (sink !== undefined) loops.set('bare', new BareLoop({ ...common, recordBytes: undefined }));
  loops.set('working', new BareLoop({ ...common, recordBytes }));
  try {
    return await new Rounds(cell, sink, engine, loops).measure(scale);
  } finally {
    // What went wrong before is what is to be told.
    await Promise.allSettled([engine, ...loops.values()].map((each) => each.close()));
  }
}

function poolBytesOf({ flightBytes }: Cell): number {
  return Math.max(POOL_BYTES_MIN, WINDOWS_IN_MEMORY * WINDOW * flightBytes);
}

class Rounds {
  readonly #cell: Cell;
  readonly #sink: Sink | undefined;
  readonly #engine: S3Engine;
  readonly #loops: ReadonlyMap<Floor, BareLoop>;
  readonly #floorMillis: number[] = [];
  readonly #ackMillis: number[] = [];
  #puts = 0;
  #payloadBytes = 0;
  #sinkBusy: number[] = [];
  #last: LoadResult | undefined;

  constructor(
    cell: Cell,
    sink: Sink | undefined,
    engine: S3Engine,
    loops: ReadonlyMap<Floor, BareLoop>,
  ) {
    this.#cell = cell;
    this.#sink = sink;
    this.#engine = engine;
    this.#loops = loops;
  }

  async measure({ rounds, seconds, warmUpFlights, fillsPool }: Scale): Promise<Row[]> {
    if (fillsPool) await this.#appends((1.1 * poolBytesOf(this.#cell)) / this.#batchBytes);
    const warmUpBatches = (warmUpFlights * this.#cell.flightBytes) / this.#batchBytes;
    const { rate } = await this.#appends(
      Math.min(warmUpBatches, WARM_UP_BYTES_MAX / this.#batchBytes),
    );
    await this.#floorTurns();
    const batches = (rate * seconds * 1e6) / this.#batchBytes;
    this.#puts = this.#payloadBytes = 0;
    this.#sinkBusy = [];
    this.#floorMillis.length = this.#ackMillis.length = 0;
    const all: Round[] = [];
    for (let round = 0; round < rounds; round++) {
      // Who comes first changes: what others do on the machine falls on all of them.
      let own = round % 2 === 0 ? await this.#appends(batches) : undefined;
      const floors = await this.#floorTurns();
      own ??= await this.#appends(batches);
      all.push({ engine: own, floors });
    }
    return this.#rows(all);
  }

  get #batchRecords(): number {
    const { recordBytes, flightBytes } = this.#cell;
    const batchBytes = Math.min(flightBytes / 4, BATCH_BYTES_MAX);
    return Math.min(BATCH_RECORDS_MAX, Math.floor(batchBytes / recordBytes));
  }

  get #batchBytes(): number {
    return this.#batchRecords * this.#cell.recordBytes;
  }

  async #appends(wanted: number): Promise<Turn> {
    const batches = Math.ceil(wanted);
    const { log, streams } = this.#engine;
    log.clear();
    const before = await this.#sink?.report();
    const cpu = process.cpuUsage();
    const result = await runLoad(streams, {
      recordBytes: this.#cell.recordBytes,
      batchRecords: this.#batchRecords,
      batches,
      mode: 'closed',
      inFlight: Math.ceil((WINDOWS_IN_FLIGHT * WINDOW * this.#cell.flightBytes) / this.#batchBytes),
    });
    await log.idle();
    const spent = cpuSeconds(cpu);
    const after = await this.#sink?.report();
    this.#last = result;
    // The server also counts what was sent twice.
    this.#puts += after === undefined ? log.creates.length : after.puts - before!.puts;
    this.#payloadBytes += result.payloadBytes;
    this.#ackMillis.push(quantile(result.ackMillis, 0.99));
    return turnOf(result.payloadBytes, result.seconds, spent);
  }

  async #floorTurns(): Promise<ReadonlyMap<Floor, Turn>> {
    const flights = flightsOf(this.#engine);
    const turns = new Map<Floor, Turn>();
    for (const [floor, loop] of this.#loops) {
      const before = await this.#sink?.report();
      const cpu = process.cpuUsage();
      const result = await loop.closed(flights);
      const spent = cpuSeconds(cpu);
      const after = await this.#sink?.report();
      turns.set(floor, turnOf(this.#last!.payloadBytes, result.seconds, spent));
      if (floor === this.#targeted) {
        this.#floorMillis.push(quantile(result.storedMillis, 0.99));
        const busySeconds = (after?.cpuSeconds ?? 0) - (before?.cpuSeconds ?? 0);
        this.#sinkBusy.push(busySeconds / result.seconds);
      }
    }
    return turns;
  }

  /** Where the server takes its time the engine's own work is to be hidden behind it. */
  get #targeted(): Floor {
    return this.#cell.serviceMillis > 0 && this.#loops.has('bare') ? 'bare' : 'working';
  }

  #rows(rounds: readonly Round[]): Row[] {
    const medianOf = (read: (round: Round) => number): number => rounded(median(rounds.map(read)));
    const details = {
      // Of batches that wait for a slot, too: twice the window is under way.
      ackP99Millis: rounded(median(this.#ackMillis)),
      floorP99Millis: rounded(median(this.#floorMillis)),
      putsPerMiB: rounded((this.#puts * MIB) / this.#payloadBytes),
      engineCpuMillisPerMB: medianOf(({ engine }) => engine.cpuMillisPerMB),
      ...(this.#sink === undefined ? {} : { sinkBusy: rounded(median(this.#sinkBusy)) }),
    };
    return [...this.#loops.keys()].map((floor) => {
      const pairs = rounds.map(({ engine, floors }): Pair => ({
        engine: engine.rate,
        floor: floors.get(floor)!.rate,
      }));
      const cpuOf = ({ floors }: Round): number => floors.get(floor)!.cpuMillisPerMB;
      return rowOf(`${cellName(this.#cell)}, of the ${floor} loop`, 'MB/s', pairs, {
        ...(floor === this.#targeted ? { target: 0.7 } : {}),
        cpuRatio: medianOf((round) => cpuOf(round) / round.engine.cpuMillisPerMB),
        floorCpuMillisPerMB: medianOf(cpuOf),
        ...details,
      });
    });
  }
}

function turnOf(payloadBytes: number, seconds: number, spentSeconds: number): Turn {
  return {
    rate: payloadBytes / seconds / 1e6,
    cpuMillisPerMB: (spentSeconds * 1e9) / payloadBytes,
  };
}

/** The flights that the engine stored last, each once, with the times of their first requests. */
export function flightsOf({ log }: S3Engine): BareFlight[] {
  if (log.creates.length === 0) throw new Error('the engine stored nothing');
  const flights = new Map<string, { sizeBytes: number; atMillis: number }>();
  const startedAt = log.creates.reduce((at, create) => Math.min(at, create.startedAt), Infinity);
  for (const { key, sizeBytes, startedAt: at } of log.creates) {
    const known = flights.get(key);
    const atMillis = Math.min(known?.atMillis ?? Infinity, at - startedAt);
    flights.set(key, { sizeBytes, atMillis });
  }
  return [...flights.values()].sort((a, b) => a.atMillis - b.atMillis);
}
