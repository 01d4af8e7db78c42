/**
 * Several processes with engines over one data directory, killed and stopped at random while their
 * clients work; then one more engine that looks at what is there.
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { engineDoor } from '../../src/cli/door.ts';
import { startReporting, type WriterProcess } from '../../src/cli/load/writer-process.ts';
import type { WriterOptions } from '../../src/cli/store.ts';
import { SharedStream } from '../../src/cli/takeover/producer.ts';
import { toEngineError } from '../../src/lib/errors.ts';
import { Prng } from '../../src/lib/prng.ts';
import { deferred } from '../../src/lib/wait.ts';
import { workerFile } from '../../src/lib/worker-file.ts';
import { Client, type Lead } from './client.ts';
import type { HistoryEvent } from './events.ts';
import { IDS_PER_RUN, PEER_TOKEN, type MemberConfig, type MemberReport } from './member-config.ts';
import { merged, type TimedEvent } from './merge.ts';
import { parseEvents } from './parse-events.ts';
import { closed, Recorder } from './recorder.ts';
import { WORKFLOWS } from './workflow.ts';

export interface RealOptions {
  readonly seconds: number;
  /** Of each stream, over all processes. */
  readonly clients: number;
}

export interface RealRun {
  readonly histories: readonly {
    readonly name: string;
    readonly events: readonly HistoryEvent[];
  }[];
  readonly seconds: number;
  readonly kills: number;
  readonly pauses: number;
}

const STARS = ['a', 'b', 'c'] as const;
const THINK_MILLIS = 15;
const LAST_LOOKS_TRIED = 60;

/** @throws Error when a process ends on its own, or when nothing answers in the end. */
export async function runReal({ seconds, clients }: RealOptions): Promise<RealRun> {
  const root = mkdtempSync(join(tmpdir(), 'asterlog-linearize-'));
  const members = new Members(root, Math.ceil(clients / STARS.length));
  try {
    await Promise.all(STARS.map((star) => members.start(star)));
    await members.disturb(seconds);
    await members.finish();
    await lookAtLast(members);
    const histories = WORKFLOWS.map((name) => ({
      name,
      events: closed(merged(members.events(name))),
    }));
    const { kills, pauses } = members;
    return { histories, seconds, kills, pauses };
  } finally {
    members.dispose();
    await rm(root, { recursive: true, force: true });
  }
}

class Members {
  kills = 0;
  pauses = 0;
  readonly #root: string;
  readonly #clients: number;
  readonly #running = new Map<string, WriterProcess>();
  readonly #events = new Map<string, TimedEvent[]>();
  readonly #prng = new Prng(Number(process.hrtime.bigint() % 1_000_000_007n));
  #runs = 0;
  #failure: string | undefined;

  constructor(root: string, clients: number) {
    this.#root = root;
    this.#clients = clients;
  }

  /** Resolves when its clients work. */
  async start(star: string): Promise<void> {
    const opened = deferred<'open'>();
    const config: MemberConfig = {
      store: this.store(star),
      run: this.nextRun(),
      clients: this.#clients,
      streams: WORKFLOWS,
      thinkMillis: THINK_MILLIS,
    };
    const member = startReporting(workerFile('member.worker', import.meta.url), config, (line) => {
      const report = JSON.parse(line) as MemberReport;
      if (report.kind === 'open') opened.resolve('open');
      if (report.kind === 'failed') this.#failure ??= `${star}: ${report.message}`;
      if (report.kind !== 'event') return;
      const [event] = parseEvents(report.line);
      this.add(report.stream, { event: event!, atNanos: BigInt(report.at) });
    });
    this.#running.set(star, member);
    const first = await Promise.race([opened.promise, member.ended]);
    if (first === 'open') return;
    throw new Error(`${star} did not start: ${this.#failure ?? first.stderr}`);
  }

  /** What was killed starts again while others are struck. */
  async disturb(seconds: number): Promise<void> {
    const until = performance.now() + seconds * 1_000;
    const starts: Promise<void>[] = [];
    const startsAgain = new Set<string>();
    while (performance.now() < until) {
      await sleep(300 + this.#prng.below(1_200));
      const star = this.#prng.pick(STARS);
      if (startsAgain.has(star)) continue;
      if (this.#prng.chance(0.3)) {
        await this.#pause(star);
        continue;
      }
      await this.#kill(star);
      startsAgain.add(star);
      const start = this.start(star).then(() => void startsAgain.delete(star));
      // Waited for in the end; it must not count as unhandled before.
      start.catch(() => undefined);
      starts.push(start);
    }
    await Promise.all(starts);
  }

  async finish(): Promise<void> {
    for (const [star, member] of this.#running) {
      member.stop();
      const { exitCode, stderr } = await member.ended;
      if (exitCode !== 0) throw new Error(`${star} ended badly: ${this.#failure ?? stderr}`);
    }
  }

  dispose(): void {
    for (const member of this.#running.values()) member.kill();
  }

  store(star: string): WriterOptions {
    return {
      ...{ root: this.#root, buckets: 3, copies: 2, basin: 'default', star },
      ...{ sessionTimeout: 2_000, closeTimeout: 20_000 },
    };
  }

  nextRun(): number {
    return this.#runs++;
  }

  events(stream: string): readonly TimedEvent[] {
    return this.#events.get(stream) ?? [];
  }

  add(stream: string, event: TimedEvent): void {
    const events = this.#events.get(stream) ?? [];
    this.#events.set(stream, events);
    events.push(event);
  }

  async #kill(star: string): Promise<void> {
    const member = this.#running.get(star)!;
    member.kill();
    const { signal, stderr } = await member.ended;
    if (signal !== 'SIGKILL')
      throw new Error(`${star} ended by itself: ${this.#failure ?? stderr}`);
    this.kills++;
  }

  /** Shorter and longer than the session timeout. */
  async #pause(star: string): Promise<void> {
    const { pid } = this.#running.get(star)!;
    process.kill(pid, 'SIGSTOP');
    this.pauses++;
    try {
      await sleep(200 + this.#prng.below(2_500));
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }
}

async function lookAtLast(members: Members): Promise<void> {
  const engine = await engineDoor.openEngine(members.store('z'), { listen: { token: PEER_TOKEN } });
  const clock = systemClock();
  const first = members.nextRun() * IDS_PER_RUN;
  try {
    for (const name of WORKFLOWS) {
      const shared = new SharedStream(engine, name);
      const recorder = new Recorder((event) => {
        members.add(name, { event, atNanos: process.hrtime.bigint() });
      }, first);
      const lead = async (): Promise<Lead> => ({
        stream: await shared.handle(),
        failed: (error) => shared.failed(toEngineError(error)),
      });
      const client = new Client({
        ...{ name: 'z', clock, prng: new Prng(1), recorder, lead, workflow: 'regular' },
        ...{ operations: 0, thinkMillis: 0, timeoutMillis: 10_000 },
      });
      for (const kind of ['read', 'checkTail'] as const) await untilAnswered(client, lead, kind);
    }
  } finally {
    await engine.close({ timeoutMillis: 20_000 });
  }
}

async function untilAnswered(
  client: Client,
  lead: () => Promise<Lead>,
  kind: 'read' | 'checkTail',
): Promise<void> {
  for (let tries = 0; tries < LAST_LOOKS_TRIED; tries++) {
    const found = await lead().catch(() => undefined);
    if (found !== undefined && (await client.look(found, kind))) return;
    await sleep(500);
  }
  throw new Error(`no ${kind} is answered when all is quiet`);
}
