/**
 * Two processes share streams; the one that leads them gets SIGKILL while producers of both append.
 * The other finds out, fences and settles the dead epoch, opens the streams and goes on.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../lib/errors.ts';
import type { Context } from '../context.ts';
import { errorOfChild } from '../load/child-failure.ts';
import { formatCount, formatMillis } from '../numbers.ts';
import type { Output } from '../output.ts';
import type { WriterOptions } from '../store.ts';
import { LiveBlock } from '../terminal.ts';
import { Ledger } from './ledger.ts';
import type { MemberConfig } from './member-config.ts';
import { Member } from './member-process.ts';
import { hostMillis, type MemberReport, type TakeoverFigures } from './reports.ts';
import type { TakeoverResult } from './result.ts';

export interface TakeoverPlan {
  readonly store: WriterOptions & { readonly root: string };
  /** Where the data is, for people. */
  readonly place: string;
  readonly seconds: number;
  readonly producers: number;
  readonly streams: number;
  readonly batchRecords: number;
  readonly files: readonly string[];
}

const RETRY_MILLIS = 30_000;
const CHECK_TAIL_MILLIS = 20;
const PROGRESS_MILLIS = 100;
const LEADER = 'left';
const FOLLOWER = 'right';

export async function runTakeover(
  context: Context,
  output: Output,
  plan: TakeoverPlan,
): Promise<TakeoverResult> {
  const demo = new Takeover(context, output, plan);
  try {
    return await demo.run();
  } finally {
    demo.dispose();
  }
}

class Takeover {
  readonly #context: Context;
  readonly #output: Output;
  readonly #plan: TakeoverPlan;
  readonly #names: readonly string[];
  readonly #ledger: Ledger;
  readonly #token = randomBytes(24).toString('base64url');
  readonly #firstRun = Math.floor(Math.random() * 1_000_000);
  readonly #members: Member[] = [];
  #detectedAt: number | undefined;
  #figures: TakeoverFigures | undefined;

  constructor(context: Context, output: Output, plan: TakeoverPlan) {
    this.#context = context;
    this.#output = output;
    this.#plan = plan;
    const tag = this.#firstRun.toString().padStart(6, '0');
    this.#names = Array.from({ length: plan.streams }, (_, at) => `takeover-${tag}-${at + 1}`);
    this.#ledger = new Ledger(this.#names);
  }

  async run(): Promise<TakeoverResult> {
    const { seconds, store, place } = this.#plan;
    this.#output.note(
      `${store.buckets} buckets in ${place}, ${this.#names.length} streams, two processes with ` +
        `${this.#plan.producers} producers each, ${seconds} s`,
    );
    const leader = this.#start(LEADER);
    await this.#unlessEnded(leader, leader.appending);
    const follower = this.#start(FOLLOWER);
    await this.#unlessEnded(follower, follower.appending);
    await this.#append(follower, (seconds * 1000) / 2);
    leader.process.kill();
    const killedAt = hostMillis();
    this.#output.note(`SIGKILL of ${LEADER}, which leads ${this.#names.length} streams`);
    await leader.process.ended;
    await this.#append(follower, (seconds * 1000) / 2);
    await this.#untilServed(follower, killedAt);
    follower.process.stop();
    const { exitCode } = await follower.process.ended;
    if (exitCode !== 0) throw await this.#failure(follower);
    return this.#result(killedAt);
  }

  /** No member outlives the demo, however it ends. */
  dispose(): void {
    for (const { process } of this.#members) process.kill();
  }

  #start(star: string): Member {
    const { store, producers, batchRecords, files } = this.#plan;
    const config: MemberConfig = {
      store: { ...store, star },
      run: this.#firstRun + this.#members.length,
      streams: this.#names,
      producers,
      batchRecords,
      files,
      retryMillis: RETRY_MILLIS,
      checkTailMillis: CHECK_TAIL_MILLIS,
    };
    const member = new Member(config, (report) => this.#take(star, report), {
      peerToken: this.#token,
    });
    this.#members.push(member);
    return member;
  }

  #take(star: string, report: MemberReport): void {
    this.#ledger.take(report);
    if (star !== FOLLOWER) return;
    if (report.kind === 'detected' && report.star === LEADER) this.#detectedAt ??= report.at;
    if (report.kind === 'takeovers') this.#figures = report.figures;
  }

  async #append(member: Member, millis: number): Promise<void> {
    const live = new LiveBlock(this.#output.err);
    const timer = setInterval(() => {
      live.update(() => [
        `${formatCount(this.#ledger.records)} records acknowledged, ` +
          `longest stall ${formatMillis(this.#ledger.longestStallMillis)}`,
      ]);
    }, PROGRESS_MILLIS);
    try {
      await this.#unlessEnded(member, sleep(millis));
    } finally {
      clearInterval(timer);
      live.end();
    }
  }

  /** Producers retry for a while, so the follower may need longer than the demo was to last. */
  async #untilServed(follower: Member, since: number): Promise<void> {
    const deadline = hostMillis() + 2 * RETRY_MILLIS;
    while (this.#ledger.streamsAcknowledgedSince(since) < this.#names.length) {
      if (hostMillis() > deadline) return;
      await this.#unlessEnded(follower, sleep(PROGRESS_MILLIS));
    }
  }

  async #result(killedAt: number): Promise<TakeoverResult> {
    const reader = await this.#context.door.openReader({ ...this.#plan.store, star: FOLLOWER });
    const live = new LiveBlock(this.#output.err);
    try {
      const verdict = await this.#ledger.readBack(reader, (records) => {
        live.update(() => [`reading back: ${formatCount(records)} records`]);
      });
      return {
        root: this.#plan.store.root,
        seconds: this.#plan.seconds,
        detectionMillis: (this.#detectedAt ?? Number.NaN) - killedAt,
        figures: this.#figures,
        longestStallMillis: this.#ledger.longestStallMillis,
        acknowledged: this.#ledger.records,
        verdict,
        reused: this.#ledger.reused(),
        producerErrors: this.#ledger.producerErrors,
        retries: this.#ledger.retries,
        tailChecks: this.#ledger.tailChecks,
        staleCheckTails: this.#ledger.staleTails(),
      };
    } finally {
      live.end();
      await reader.close();
    }
  }

  /** Waits for something of a member; its early end or the wish to stop comes first. */
  async #unlessEnded<T>(member: Member, wait: Promise<T>): Promise<T> {
    const { signal } = this.#context.shutdown;
    let stop!: () => void;
    const stopped = new Promise<never>((_, reject) => {
      stop = () => reject(new EngineError('ABORTED', 'the demo was stopped'));
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
    const ended = member.process.ended.then(async () => {
      throw await this.#failure(member);
    });
    stopped.catch(() => undefined);
    ended.catch(() => undefined);
    try {
      return await Promise.race([wait, ended, stopped]);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async #failure(member: Member): Promise<EngineError> {
    const { exitCode, signal, stderr } = await member.process.ended;
    const told = errorOfChild(member.failure);
    if (told !== undefined) return told;
    return new EngineError('INTERNAL', 'a member ended early', {
      details: {
        star: member.star,
        exitCode: exitCode ?? undefined,
        signal: signal ?? undefined,
        stderr: stderr === '' ? undefined : stderr,
      },
      sideEffects: 'possible',
    });
  }
}
