/**
 * Three processes share streams for a minute while they are killed, stopped and started again at random.
 * Each appends to all streams, forwards what it does not lead, and asks for tails; the account is kept
 * here, in the parent.
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { engineDoor } from '../../src/cli/door.ts';
import { Ledger } from '../../src/cli/takeover/ledger.ts';
import { Member } from '../../src/cli/takeover/member-process.ts';
import { expectClean, killMember } from '../support/member-verdict.ts';

const SECONDS = 60;
const STARS = ['a', 'b', 'c'];
const STREAMS = ['s1', 's2', 's3', 's4', 's5'];
const MEMBER = fileURLToPath(
  new URL('../../dist/src/cli/takeover/member.worker.js', import.meta.url),
);

const root = mkdtempSync(join(tmpdir(), 'asterlog-stars-'));
afterAll(() => rm(root, { recursive: true, force: true }), 180_000);

const store = {
  root,
  buckets: 3,
  copies: 2,
  basin: 'default',
  sessionTimeout: 2_000,
  closeTimeout: 30_000,
};

class Constellation {
  readonly ledger = new Ledger(STREAMS);
  readonly counts = { kills: 0, stops: 0, takeovers: 0, detected: 0 };
  readonly #members = new Map<string, Member>();
  #runs = 0;

  start(star: string): Member {
    const member = new Member(
      {
        store: { ...store, star },
        settings: { flightBytes: 16 * 1024, absorbBytes: 128 * 1024 },
        run: ++this.#runs,
        streams: STREAMS,
        producers: STREAMS.length * 2,
        batchRecords: 10,
        files: [],
        retryMillis: 30_000,
        checkTailMillis: 50,
      },
      (report) => {
        this.ledger.take(report);
        if (report.kind === 'detected') this.counts.detected++;
        if (report.kind === 'takeovers') this.counts.takeovers += report.figures.streams;
      },
      {
        peerToken: 'a token that all members of this test share',
        file: { filename: MEMBER, execArgv: [] },
      },
    );
    this.#members.set(star, member);
    return member;
  }

  async kill(star: string): Promise<void> {
    await killMember(this.#members.get(star)!);
    this.counts.kills++;
    await sleep(Math.random() * 1_500);
    this.start(star);
  }

  /** Shorter and longer than the session timeout. */
  async pause(star: string): Promise<void> {
    const { pid } = this.#members.get(star)!.process;
    process.kill(pid, 'SIGSTOP');
    this.counts.stops++;
    try {
      await sleep(500 + Math.random() * 4_500);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  async finish(): Promise<void> {
    for (const [star, { process }] of this.#members) {
      process.stop();
      const { exitCode, stderr } = await process.ended;
      expect(exitCode, `${star}: ${stderr}`).toBe(0);
    }
  }

  dispose(): void {
    for (const { process } of this.#members.values()) process.kill();
  }
}

it('loses no record, reuses no number and answers no stale tail while stars die, sleep and return', async () => {
  const stars = new Constellation();
  try {
    for (const star of STARS) await stars.start(star).appending;
    const until = performance.now() + SECONDS * 1_000;
    for (let round = 0; performance.now() < until; round++) {
      await sleep(500 + Math.random() * 2_500);
      const star = STARS[Math.floor(Math.random() * STARS.length)]!;
      if (round % 5 < 3) await stars.kill(star);
      else await stars.pause(star);
    }
    const before = performance.now();
    await sleep(5_000);
    expect(stars.ledger.records).toBeGreaterThan(0);
    await stars.finish();
    const reader = await engineDoor.openReader({ ...store, star: 'reader' });
    try {
      const finishMillis = Math.round(performance.now() - before);
      const figures = { ...stars.counts, finishMillis };
      const outcome = await expectClean('stars', stars.ledger, reader, figures);
      expect(outcome.kills).toBeGreaterThanOrEqual(3);
      expect(outcome.stops).toBeGreaterThanOrEqual(3);
      expect(outcome.detected).toBeGreaterThanOrEqual(1);
      expect(outcome.tailChecks).toBeGreaterThanOrEqual(100);
    } finally {
      await reader.close();
    }
  } finally {
    stars.dispose();
  }
}, 400_000);
