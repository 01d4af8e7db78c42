/**
 * The fence: one classification, a slot of the pure walk, a slot of the hosted walk, and complete
 * fences at K = 3, W = 2, P = 16 against the literal algorithm of the source document.
 *
 * `floor` and `engine` are times, `ratio` is floor / engine: above 1 the engine is the faster one.
 * Floors: for `classify`, a loop that only counts the same cells; for the pure walk, classification
 * alone; for the hosted walk, bare reads and inspections of the same heads; for complete fences, the
 * literal algorithm on the same store. A round is one sequential wave to storage, identity reads,
 * poison and re-observation included, the metastore apart. An incumbent completes that many slots in
 * every bucket after each single answer of the store; the literal algorithm would never catch it.
 */
import { do_not_optimize, measure } from 'mitata';
import { MemoryBucketStore } from '../src/adapters/memory/bucket-store.ts';
import { encodeIdentity, identityKey } from '../src/format/identity.ts';
import { encodePreamble, PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { beginFence, revalidateFence, stepFence, type FenceState } from '../src/protocol/fence.ts';
import { slotKey } from '../src/protocol/keys.ts';
import { classify, EMPTY, FLIGHT } from '../src/protocol/slot.ts';
import { benchOptions } from './_harness.ts';
import { fenceOnce, type EpochShape } from './_fence-world.ts';
import { literalFence } from './_literal-fence.ts';
import { cpuSeconds, median, rounded, type Row } from './_rows.ts';
import { SparseChain, walk } from './_sparse-chain.ts';
import { bucketIdOf, EPOCH, METASTORE, NONCE, SET, SparseStore, STAR } from './_sparse-store.ts';

const QUORUM = { buckets: 3, copies: 2 };
const P = 16;
const { json, smoke } = benchOptions();
const repeats = smoke ? 1 : 5;

function timeRow(
  name: string,
  unit: string,
  floor: number,
  engine: number,
  details: Readonly<Record<string, string | number>> = {},
): Row {
  return {
    name,
    floor: rounded(floor),
    engine: rounded(engine),
    ratio: rounded(floor / engine),
    unit,
    ...details,
  };
}

/** Median nanoseconds of one call; each sample runs many. */
async function nanosOf(run: () => number): Promise<number> {
  const time = smoke ? { min_cpu_time: 1e6 } : {};
  const stats = await measure(() => do_not_optimize(run()), time);
  return stats.p50;
}

/** A thousand slots as a walk meets them: whole, short of a copy, empty, poisoned, unreadable. */
async function classifyRow(): Promise<Row> {
  const count = 1_000;
  const cells = new Uint8Array(count * 3);
  for (let at = 0; at < cells.length; at++) cells[at] = (at * 7 + (at >> 3)) % 5;
  const slots = Array.from({ length: count }, (_, slot) => cells.subarray(slot * 3, slot * 3 + 3));
  const engine = await nanosOf(() => {
    let dead = 0;
    for (const slot of slots) if (classify(QUORUM, slot).kind === 'dead') dead++;
    return dead;
  });
  const floor = await nanosOf(() => {
    let flights = 0;
    for (const slot of slots) for (let b = 0; b < 3; b++) if (slot[b] === FLIGHT) flights++;
    return flights;
  });
  const nanosPerSlot = rounded(engine / count);
  return timeRow('classify one slot', 'ns', floor / count, engine / count, {
    nanosPerSlot,
    goal: 50,
  });
}

const WALKED = 1_024;

/** The step function alone over a chain whose every slot is classified; the store's work is apart. */
async function pureWalkRow(): Promise<Row> {
  const times: number[] = [];
  for (let round = 0; round < (smoke ? 1 : 50); round++) {
    const chain = new SparseChain({ ...QUORUM, window: WALKED, tail: WALKED });
    let nanos = 0;
    const timed = (step: () => FenceState): FenceState => {
      const begunAt = process.hrtime.bigint();
      const next = step();
      nanos += Number(process.hrtime.bigint() - begunAt);
      return next;
    };
    const start = { quorum: QUORUM, window: WALKED, checkpoint: 0, own: false };
    let state = timed(() => beginFence(start));
    while (state.wave.kind !== 'cut') {
      const before = state;
      if (before.wave.kind === 'revalidate') state = timed(() => revalidateFence(before, 0));
      else {
        const answers = chain.answer(before.wave);
        state = timed(() => stepFence(before, answers));
      }
    }
    times.push(nanos / WALKED);
  }
  const slots = Array.from({ length: WALKED }, () => Uint8Array.of(FLIGHT, FLIGHT, FLIGHT));
  const floor = await nanosOf(() => {
    let committed = 0;
    for (const slot of slots) if (classify(QUORUM, slot).kind === 'committed') committed++;
    return committed;
  });
  const engine = median(times);
  return timeRow('pure walk, a slot', 'ns', floor / WALKED, engine, {
    nanosPerSlot: rounded(engine),
  });
}

function memoryStores(): MemoryBucketStore[] {
  return [0, 1, 2].map((bucket) => {
    const store = new MemoryBucketStore({ name: `memory-${bucket}` });
    const identity = {
      bucketId: bucketIdOf(bucket),
      bucketIndex: bucket,
      setId: SET,
      metastoreId: METASTORE,
      createdAtMillis: 0,
    };
    store.plant(identityKey(SET), encodeIdentity(identity));
    for (let slot = 0; slot < WALKED; slot++) {
      // The watermark says nothing, so that every slot of the window is walked.
      const object = new Uint8Array(PREAMBLE_BYTES + 56 + 200);
      encodePreamble(object, 0, {
        alignBytes: 0,
        kind: 'flight',
        star: STAR,
        epoch: EPOCH,
        slot,
        nonce: NONCE,
        released: 0,
        headerBytes: 56,
        bodyBytes: 200,
        entryCount: 1,
        headerChecksum: 0,
        bodyChecksum: 0,
      });
      store.plant(slotKey(STAR, EPOCH, slot), object);
    }
    return store;
  });
}

/** Wall time is what the goal is about; processor time is what a busy machine cannot blur. */
async function hostedWalkRow(): Promise<Row> {
  const shape: EpochShape = { copies: QUORUM.copies, window: WALKED, checkpoint: 0 };
  const stores = memoryStores();
  const walks: number[] = [];
  const bare: number[] = [];
  const cpu: number[] = [];
  let gets = 0;
  const rounds = smoke ? 1 : 200;
  for (let round = 0; round < rounds; round++) {
    for (const store of stores) await store.delete(slotKey(STAR, EPOCH, WALKED));
    const cpuAt = process.cpuUsage();
    const begunAt = process.hrtime.bigint();
    const result = await fenceOnce(stores, shape);
    walks.push(Number(process.hrtime.bigint() - begunAt) / WALKED);
    cpu.push((cpuSeconds(cpuAt) * 1e6) / WALKED);
    if (result.cut !== WALKED) throw new Error(`cut ${result.cut}`);
    ({ gets } = result);
    const bareAt = process.hrtime.bigint();
    await bareReads(stores);
    bare.push(Number(process.hrtime.bigint() - bareAt) / WALKED);
  }
  const warm = (values: number[]): number => median(values.slice(values.length >> 1));
  const engine = warm(walks) / 1_000;
  return timeRow('hosted walk, a slot', 'us', warm(bare) / 1_000, engine, {
    nanosPerSlot: rounded(warm(walks)),
    fastestNanosPerSlot: rounded(Math.min(...walks)),
    cpuMicrosPerSlot: rounded(warm(cpu)),
    gets,
    goal: 10,
  });
}

/** The same heads read and inspected in waves of the same size, with nothing decided. */
async function bareReads(stores: readonly MemoryBucketStore[]): Promise<void> {
  for (let from = 0; from < WALKED; from += 96) {
    const wave: Promise<void>[] = [];
    for (let slot = from; slot < Math.min(WALKED, from + 96); slot++) {
      const key = slotKey(STAR, EPOCH, slot);
      for (const store of stores) {
        wave.push(
          store.readHead(key, PREAMBLE_BYTES).then((outcome) => {
            if (outcome.kind !== 'found') return;
            const expected = { star: STAR, epoch: EPOCH, slot, nonce: NONCE };
            do_not_optimize(inspectSlotObject(outcome.bytes, outcome.sizeBytes, expected));
          }),
        );
      }
    }
    await Promise.all(wave);
  }
}

interface FenceCase {
  readonly label: string;
  readonly tail: number;
  readonly checkpoint: number;
}

const CASES: readonly FenceCase[] = [
  { label: '1e2 checkpoint=0', tail: 100, checkpoint: 0 },
  { label: '1e4 checkpoint=0', tail: 10_000, checkpoint: 0 },
  // The lag bound is lifted here: an engine keeps its checkpoint within 4,096 slots.
  { label: '1e6 checkpoint=0', tail: 1_000_000, checkpoint: 0 },
  { label: '1e6 lag=4096', tail: 1_000_000, checkpoint: 1_000_000 - 4_096 },
];

function chainOf({ tail }: FenceCase, garbage: number): SparseChain {
  const chain = new SparseChain({ ...QUORUM, window: P, tail });
  for (let each = 1; each <= garbage; each++) {
    for (let bucket = 0; bucket < 3; bucket++) chain.setCell(tail + each, bucket, FLIGHT);
  }
  return chain;
}

const storesOf = (chain: SparseChain, latencyMillis: number): SparseStore[] =>
  [0, 1, 2].map((bucket) => new SparseStore(chain, bucket, latencyMillis));

async function fenceRows(each: FenceCase, garbage: number, latencyMillis: number): Promise<Row[]> {
  const shape = { copies: QUORUM.copies, window: P, checkpoint: each.checkpoint };
  const suffix = `${each.label} garbage=${garbage} latency=${latencyMillis}ms`;
  const runs = latencyMillis > 1 ? 1 : repeats;
  const timed = async <T>(run: () => Promise<T>): Promise<{ millis: number; value: T }> => {
    const times: number[] = [];
    let value: T;
    do {
      const begunAt = process.hrtime.bigint();
      value = await run();
      times.push(Number(process.hrtime.bigint() - begunAt) / 1e6);
    } while (times.length < runs);
    return { millis: median(times), value };
  };
  const check = <T extends { readonly cut: number }>(result: T): T => {
    if (result.cut !== each.tail) throw new Error(`cut ${result.cut}, not ${each.tail}: ${suffix}`);
    return result;
  };
  const stores = (): SparseStore[] => storesOf(chainOf(each, garbage), latencyMillis);
  const literal = await timed(async () => check(await literalFence(stores(), shape)));
  const engine = await timed(async () => check(await fenceOnce(stores(), shape)));
  const hinted = await timed(async () => check(await fenceOnce(stores(), shape, each.tail)));
  const rowFor = (
    name: string,
    { millis, value }: { millis: number; value: { rounds: number; gets: number; puts: number } },
  ): Row => {
    const { rounds, gets, puts } = value;
    return timeRow(`${name} ${suffix}`, 'ms', literal.millis, millis, {
      rounds,
      gets,
      puts,
      millis: rounded(millis),
      literalRounds: literal.value.rounds,
    });
  };
  return [rowFor('fence', engine), rowFor('fence hint', hinted), rowFor('literal', literal)];
}

/** One flight above the chain needs its missing copies: three rounds more. Pure: no bodies here. */
function repairRow(): Row {
  const each = CASES[2]!;
  const short = chainOf(each, 0);
  short.setCell(each.tail, 2, FLIGHT);
  const whole = walk(chainOf(each, 0));
  const { rounds, gets, puts } = walk(short);
  return timeRow(`fence repair ${each.label}`, 'rounds', whole.rounds, rounds, {
    rounds,
    gets,
    puts,
  });
}

async function incumbentRow(each: FenceCase, steps: number): Promise<Row> {
  const chain = chainOf(each, 0);
  chain.incumbentSteps = steps;
  const shape = { copies: QUORUM.copies, window: P, checkpoint: each.checkpoint };
  const { rounds, gets, puts, millis, cut } = await fenceOnce(storesOf(chain, 0), shape);
  // The floor is the bound that must not be exceeded.
  return timeRow(`fence incumbent=${steps} ${each.label}`, 'rounds', 12, rounds, {
    rounds,
    gets,
    puts,
    millis: rounded(millis),
    written: cut - each.tail,
    dead: [0, 1, 2].filter((bucket) => chain.cell(cut, bucket) !== EMPTY).length,
  });
}

const rows: Row[] = [await classifyRow(), await pureWalkRow(), await hostedWalkRow()];
for (const each of smoke ? CASES.slice(0, 1) : CASES) {
  for (const garbage of [0, 1, P - 1]) {
    for (const latency of smoke ? [0] : [0, 1, 20])
      rows.push(...(await fenceRows(each, garbage, latency)));
  }
}
rows.push(repairRow());
for (const each of CASES)
  for (const steps of [1, 4, 16]) rows.push(await incumbentRow(each, steps));

if (json) console.log(JSON.stringify({ bench: 'fence-walk', rows }));
else {
  for (const { name, floor, engine, ratio, unit, ...details } of rows) {
    const text = Object.entries(details).map(([key, value]) => `${key} ${value}`);
    console.log(`${name}: ${engine} ${unit} (floor ${floor}, ratio ${ratio}) ${text.join(', ')}`);
  }
}
