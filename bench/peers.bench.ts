/**
 * The same records, 64 in flight, through the directory store of an engine and through logs of others,
 * all durable, in one process, in turns. What each row means: README.md beside this file.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { directoryComponents } from '../src/engine/components.ts';
import { IN_FLIGHT, openLoadEngine } from './_append-load.ts';
import { benchOptions } from './_harness.ts';
import { PEERS, PEERS_FOLDER, type Peer, type PeerLog } from './_peers.ts';
import { cpuSeconds, median, rounded, rowOf, type Row } from './_rows.ts';
import { Workspace } from './_workspace.ts';

const { json, smoke } = benchOptions();
const ROUNDS = smoke ? 1 : 7;
const TURN_MILLIS = smoke ? 20 : 400;
const WARM_UP_MILLIS = smoke ? 20 : 1_000;
const RECORD_SIZES = smoke ? [4_096] : [100, 1_024, 4_096, 65_536];
/** From here on the engine is to be ahead. */
const AHEAD_FROM_BYTES = 4_096;

/** Buckets of the engine: one copy, as the others keep; and what the embedded default keeps. */
const ENGINES = [
  { name: 'K=1/W=1', buckets: 1 },
  { name: 'K=3/W=2 (default)', buckets: 3 },
];

interface Contestant {
  readonly name: string;
  readonly log: PeerLog;
}

/** Why each peer that cannot be had cannot. */
async function missingPeers(workspace: Workspace): Promise<Map<Peer, string>> {
  const missing = new Map<Peer, string>();
  for (const peer of PEERS) {
    try {
      await (await peer.open(workspace.freshFolder())).close();
    } catch (error) {
      missing.set(peer, String(error).split('\n', 1)[0]!);
    }
  }
  return missing;
}

/** One of them is compiled here, for there may be no binary of it. */
function installPeers(): void {
  console.error('installing the peers, which takes a minute or two');
  const options = ['ci', '--prefix', PEERS_FOLDER, '--no-audit', '--no-fund'];
  const { status, stderr } = spawnSync('npm', options, { encoding: 'utf8' });
  if (status !== 0) console.error(stderr.trim().split('\n').slice(-3).join('\n'));
}

async function openEngineLog(folder: string, buckets: number): Promise<PeerLog> {
  const { engine, streams } = await openLoadEngine({
    components: directoryComponents({ root: join(folder, 'data'), buckets }),
    settings: {},
    wrap: (_, store) => store,
  });
  const [stream] = streams;
  return {
    append: async (body) => {
      await stream!.append([{ body }]);
    },
    close: () => engine.close(),
  };
}

interface Turn {
  readonly rate: number;
  /** Of the processor, all threads, a record. */
  readonly cpuMicros: number;
}

/** Each acknowledged record is followed by the next. */
async function turnOf(log: PeerLog, body: Uint8Array, millis: number): Promise<Turn> {
  const cpu = process.cpuUsage();
  const started = performance.now();
  let records = 0;
  const caller = async (): Promise<void> => {
    while (performance.now() - started < millis) {
      await log.append(body);
      records++;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  const rate = (records * 1_000) / (performance.now() - started);
  return { rate, cpuMicros: (cpuSeconds(cpu) * 1e6) / records };
}

async function rowsOf(
  workspace: Workspace,
  recordBytes: number,
  present: readonly Peer[],
): Promise<Row[]> {
  const body = new Uint8Array(recordBytes).fill(7);
  const engines: Contestant[] = [];
  const peers: (Contestant & { readonly durability: string })[] = [];
  for (const { name, buckets } of ENGINES) {
    engines.push({ name, log: await openEngineLog(workspace.freshFolder(), buckets) });
  }
  for (const { name, durability, open } of present) {
    peers.push({ name, durability, log: await open(workspace.freshFolder()) });
  }
  const all: readonly Contestant[] = [...engines, ...peers];
  for (const { log } of all) await turnOf(log, body, WARM_UP_MILLIS);
  const turns = new Map<string, Turn[]>(all.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    const inTurn = round % 2 === 0 ? all : [...all].reverse();
    for (const { name, log } of inTurn) {
      turns.get(name)!.push(await turnOf(log, body, TURN_MILLIS));
    }
    await workspace.cut();
  }
  for (const { log } of all) await log.close();
  const size = recordBytes < 1_024 ? `${recordBytes} B` : `${recordBytes >> 10} KiB`;
  const cpuOf = (name: string): number =>
    rounded(median(turns.get(name)!.map(({ cpuMicros }) => cpuMicros)));
  return engines.flatMap((engine) =>
    peers.map((peer) => {
      const pairs = turns
        .get(engine.name)!
        .map(({ rate }, round) => ({ engine: rate, floor: turns.get(peer.name)![round]!.rate }));
      return rowOf(`${size}, ${engine.name}, to ${peer.name}`, 'records/s', pairs, {
        ...(recordBytes < AHEAD_FROM_BYTES ? {} : { target: 1 }),
        engineCpuMicros: cpuOf(engine.name),
        floorCpuMicros: cpuOf(peer.name),
        floorDurability: peer.durability,
      });
    }),
  );
}

const workspace = new Workspace();
const rows: Row[] = [];
try {
  let missing = await missingPeers(workspace);
  // The gate installs nothing.
  if (missing.size > 0 && !smoke) {
    installPeers();
    missing = await missingPeers(workspace);
  }
  for (const [{ name }, reason] of missing) {
    rows.push({ name, floor: 0, engine: 0, ratio: 0, unit: 'records/s', skipped: reason });
    if (!json) console.log(`skipped ${name}: ${reason}`);
  }
  const present = PEERS.filter((peer) => !missing.has(peer));
  for (const recordBytes of RECORD_SIZES) {
    const more = await rowsOf(workspace, recordBytes, present);
    rows.push(...more);
    if (!json) for (const row of more) print(row);
  }
} finally {
  workspace.remove();
}
if (json) console.log(JSON.stringify({ bench: 'peers', rows }));

function print({ name, floor, engine, ratio, ratioMin, ratioMax, unit, ...details }: Row): void {
  console.log(`${name}: ${engine} of ${floor} ${unit}, ratio ${ratio} (${ratioMin}–${ratioMax})`);
  console.log(`    CPU us a record: ${details['engineCpuMicros']} of ${details['floorCpuMicros']}`);
}
