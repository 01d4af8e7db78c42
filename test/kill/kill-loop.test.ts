/**
 * Fifty writers one after the other on the same data, each killed with SIGKILL at a random moment. The
 * acknowledgements are kept here, in the parent; after every restart what is new is read back and
 * compared with them, and at the end everything is read once more from the beginning.
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { Tally } from '../../src/cli/load/tally.ts';
import type { Report } from '../../src/cli/load/reports.ts';
import { isClean } from '../../src/cli/load/verifier.ts';
import { startWriter, type WriterProcess } from '../../src/cli/load/writer-process.ts';
import { engineDoor } from '../../src/cli/door.ts';
import type { ReadOnlyEngine, RecoverySummary } from '../../src/engine/api.ts';

const KILLS = 50;
/** Every so many kills one falls anywhere from the start of the process on, recovery included. */
const EARLY_KILL_EVERY = 10;
const STREAMS = ['a', 'b', 'c', 'd', 'e'];
const WRITER = fileURLToPath(new URL('../../dist/src/cli/load/writer.worker.js', import.meta.url));

const root = mkdtempSync(join(tmpdir(), 'asterlog-kill-'));
afterAll(() => rm(root, { recursive: true, force: true }), 180_000);

const store = {
  root,
  buckets: 3,
  copies: 2,
  star: 'main',
  basin: 'default',
  sessionTimeout: 15_000,
  closeTimeout: 30_000,
};

/** Small flights keep many slots in the air, so that kills find slots with too few copies. */
const settings = { flightBytes: 8 * 1024, absorbBytes: 256 * 1024 };

interface Counts {
  kills: number;
  withUnacknowledged: number;
  unabsorbedTails: number;
  fences: number;
  repairs: number;
  recordsNeverAcknowledged: number;
  acknowledged: number;
}

class Loop {
  readonly counts: Counts = {
    kills: 0,
    withUnacknowledged: 0,
    unabsorbedTails: 0,
    fences: 0,
    repairs: 0,
    recordsNeverAcknowledged: 0,
    acknowledged: 0,
  };
  readonly #increments = new Tally(STREAMS);
  readonly #whole = new Tally(STREAMS);
  readonly #reader: ReadOnlyEngine;
  #run = 0;
  #writer: WriterProcess | undefined;
  #recovered = Promise.resolve<RecoverySummary | undefined>(undefined);
  #appending = Promise.resolve();
  /** Checkpoints of epochs as they were found after the kill. */
  readonly #checkpoints = new Map<number, number>();

  constructor(reader: ReadOnlyEngine) {
    this.#reader = reader;
  }

  start(): void {
    for (const tally of [this.#increments, this.#whole]) tally.beginRun();
    let onRecovered!: (summary: RecoverySummary) => void;
    let onAppending!: () => void;
    let onFailed!: (error: Error) => void;
    this.#recovered = new Promise((resolve, reject) => {
      onRecovered = resolve;
      onFailed = reject;
    });
    this.#recovered.catch(() => undefined);
    this.#appending = new Promise((resolve) => {
      onAppending = resolve;
    });
    const onReport = (report: Report): void => {
      for (const tally of [this.#increments, this.#whole]) tally.take(report);
      if (report.kind === 'recovered') onRecovered(report.summary);
      if (report.kind === 'appending') onAppending();
      if (report.kind === 'failed') onFailed(new Error(JSON.stringify(report.error)));
    };
    this.#writer = startWriter(
      {
        store,
        settings,
        run: ++this.#run,
        streams: STREAMS,
        producers: 10,
        batchRecords: 20,
        inFlight: 8,
        files: [],
      },
      onReport,
      { file: { filename: WRITER, execArgv: [] } },
    );
    const { ended } = this.#writer;
    void ended.then(({ exitCode, stderr }) => {
      onFailed(new Error(`the writer ended with ${String(exitCode)}: ${stderr}`));
    });
  }

  async recovered(): Promise<void> {
    const summary = await this.#recovered;
    await Promise.race([this.#appending, this.#writer!.ended]);
    for (const { epoch, cut, repairs } of summary?.fences ?? []) {
      this.counts.fences++;
      this.counts.repairs += repairs;
      if (cut > (this.#checkpoints.get(epoch) ?? cut)) this.counts.unabsorbedTails++;
    }
  }

  async kill(): Promise<void> {
    this.#writer!.kill();
    const { signal, exitCode, stderr } = await this.#writer!.ended;
    expect({ signal, exitCode, stderr }).toMatchObject({ signal: 'SIGKILL' });
    this.counts.kills++;
    if (this.#increments.unacknowledgedBatches > 0) this.counts.withUnacknowledged++;
    const { epochs } = await this.#reader.status();
    for (const { epoch, checkpoint, state } of epochs) {
      if (state === 'open') this.#checkpoints.set(epoch, checkpoint);
    }
  }

  /**
   * What is new since the last time. The writer stands still meanwhile: on a fast machine it would
   * append more than is read back, and every round would take longer than the one before.
   */
  async verifyPaused(): Promise<void> {
    const { pid } = this.#writer!;
    process.kill(pid, 'SIGSTOP');
    try {
      await this.verify();
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  async verify(): Promise<void> {
    const verdict = await this.#increments.readBack(this.#reader);
    expect(isClean(verdict), JSON.stringify({ ...verdict, ...this.counts })).toBe(true);
  }

  async finish(): Promise<void> {
    this.#writer!.stop();
    const { exitCode, stderr } = await this.#writer!.ended;
    expect(exitCode, stderr).toBe(0);
    await this.verify();
    const verdict = await this.#whole.readBack(this.#reader);
    expect(isClean(verdict), JSON.stringify(verdict)).toBe(true);
    this.counts.recordsNeverAcknowledged = verdict.unacknowledged;
    this.counts.acknowledged = this.#whole.progress.records;
  }

  dispose(): void {
    this.#writer?.kill();
  }
}

it('loses, doubles and reorders nothing over 50 SIGKILLs under load', async () => {
  const first = await engineDoor.openEngine(store);
  await first.close();
  const reader = await engineDoor.openReader(store);
  const loop = new Loop(reader);
  try {
    loop.start();
    for (let kill = 0; kill < KILLS; kill++) {
      if (kill % EARLY_KILL_EVERY === EARLY_KILL_EVERY - 1) {
        await sleep(50 + Math.random() * 500);
      } else {
        await loop.recovered();
        await loop.verifyPaused();
        await sleep(Math.random() * 600);
      }
      await loop.kill();
      loop.start();
    }
    await loop.recovered();
    await loop.finish();
  } finally {
    loop.dispose();
    await reader.close();
  }
  const { counts } = loop;
  console.log(`kill loop: ${JSON.stringify(counts)}`);
  expect(counts.kills).toBe(KILLS);
  expect(counts.withUnacknowledged).toBeGreaterThanOrEqual(40);
  expect(counts.repairs).toBeGreaterThanOrEqual(1);
  expect(counts.unabsorbedTails).toBeGreaterThanOrEqual(10);
}, 600_000);
