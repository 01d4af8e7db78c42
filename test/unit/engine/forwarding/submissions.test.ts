/** Batches in order over holders that come and go. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Submissions } from '../../../../src/engine/forwarding/submissions.ts';
import type { Target } from '../../../../src/engine/forwarding/target.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import { checkBatch, type CheckedBatch } from '../../../../src/protocol/batch.ts';
import type { Ticket } from '../../../../src/engine/api.ts';
import { ManualClock } from '../../../support/manual-clock.ts';

const batch = (body: string) => checkBatch([{ body }], false);
const bodyOf = ({ records }: CheckedBatch): string => String(records[0]!.body);
const moved = () => new EngineError('FENCED', 'moved');
const lost = () => new EngineError('INDETERMINATE', 'lost', { sideEffects: 'possible' });

/** Takes so many, then turns everything away, as a holder that leads no more does. */
class Scripted implements Target {
  readonly id = 'id';
  readonly mode = 'any';
  readonly address: string | undefined = 'there';
  onRoom = (): void => undefined;
  readonly taken: string[] = [];
  readonly asked: string[] = [];
  room = Number.POSITIVE_INFINITY;
  readonly #answer: (index: number) => 'take' | 'lose' | 'turnAway';
  readonly #held: (() => void)[] = [];
  isHolding = false;

  constructor(answer: (index: number) => 'take' | 'lose' | 'turnAway') {
    this.#answer = answer;
  }

  hasRoom(_given?: CheckedBatch): boolean {
    return this.asked.length < this.room;
  }

  async submit(given: CheckedBatch): Promise<Ticket> {
    const index = this.asked.length;
    this.asked.push(bodyOf(given));
    if (this.isHolding) await new Promise<void>((resolve) => this.#held.push(resolve));
    const answer = this.#answer(index);
    if (answer === 'turnAway') throw moved();
    this.taken.push(bodyOf(given));
    if (answer === 'lose') throw lost();
    return {} as Ticket;
  }

  letGo(): void {
    this.isHolding = false;
    for (const resolve of this.#held.splice(0)) resolve();
  }

  checkTail(): never {
    throw new Error('not asked for');
  }
  read(): never {
    throw new Error('not asked for');
  }
  async close(): Promise<void> {}
  abandon(): void {}
}

function queue(clock = new ManualClock()) {
  const events: string[] = [];
  let trouble: EngineError | undefined;
  const submissions = new Submissions({
    clock,
    onWanted: () => events.push('wanted'),
    onMoved: (target) => {
      events.push('moved');
      submissions.detach(target);
    },
    trouble: () => trouble,
  });
  return {
    submissions,
    events,
    clock,
    setTrouble: (error: EngineError) => {
      trouble = error;
    },
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function codeOf(run: Promise<unknown>): Promise<string> {
  return run.then(
    () => 'taken',
    (error: unknown) => (EngineError.is(error) ? error.code : String(error)),
  );
}

describe('submissions', () => {
  test('that wait are given to nobody once they are closed', async () => {
    const { submissions } = queue();
    const target = new Scripted(() => 'take');
    // The large one in front does not fit; the small one behind it would.
    target.hasRoom = (given?: CheckedBatch): boolean => bodyOf(given!) !== 'large';
    submissions.attach(target);
    const codes = ['large', 'small'].map((each) => codeOf(submissions.submit(batch(each), {})));
    submissions.close(new EngineError('CLOSED', 'closed'));
    expect(await Promise.all(codes)).toEqual(['CLOSED', 'CLOSED']);
    expect(target.asked).toEqual([]);
  });

  test('go to whoever leads, in their order, each to one holder that may have it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 30 }),
        fc.array(
          fc.record({
            takes: fc.nat(8),
            loses: fc.boolean(),
            room: fc.nat(6),
            holds: fc.boolean(),
          }),
          {
            maxLength: 6,
          },
        ),
        fc.nat(5),
        async (count, holders, early) => {
          const { submissions } = queue();
          const outcomes: Promise<string>[] = [];
          const send = (index: number): void => {
            outcomes.push(codeOf(submissions.submit(batch(`${index}`), {})));
          };
          let sent = 0;
          for (; sent < Math.min(early, count); sent++) send(sent);
          const targets: Scripted[] = [];
          const script = [
            ...holders,
            { takes: Infinity, loses: false, room: Infinity, holds: false },
          ];
          for (const { takes, loses, room, holds } of script) {
            const target = new Scripted((index) =>
              index < takes ? 'take' : loses && index === takes ? 'lose' : 'turnAway',
            );
            target.room = room + 1;
            target.isHolding = holds;
            targets.push(target);
            submissions.attach(target);
            for (let more = 0; more < 4 && sent < count; more++) send(sent++);
            await settle();
            if (takes !== Infinity) submissions.detach(target);
            // What it holds back is answered after the next one was found.
            setImmediate(() => target.letGo());
          }
          while (sent < count) send(sent++);
          const results = await Promise.all(outcomes);
          const taken = targets.flatMap((target) => target.taken);
          expect(taken).toEqual(results.map((_, index) => `${index}`));
          expect(new Set(results).size).toBeLessThanOrEqual(2);
          for (const result of results) expect(['taken', 'INDETERMINATE']).toContain(result);
        },
      ),
      { numRuns: 200 },
    );
  });

  test('wait for the answers of a former holder before the next one gets any', async () => {
    const { submissions } = queue();
    const old = new Scripted((index) => (index === 0 ? 'take' : 'turnAway'));
    old.isHolding = true;
    submissions.attach(old);
    const outcomes = ['a', 'b', 'c'].map((body) => codeOf(submissions.submit(batch(body), {})));
    const next = new Scripted(() => 'take');
    submissions.attach(next);
    await settle();
    expect(next.asked).toEqual([]);
    old.letGo();
    expect(await Promise.all(outcomes)).toEqual(['taken', 'taken', 'taken']);
    expect([old.taken, next.taken]).toEqual([['a'], ['b', 'c']]);
  });

  test('say at their deadline why nobody took them: they were not appended', async () => {
    const { submissions, clock, events, setTrouble } = queue();
    const plain = codeOf(submissions.submit(batch('a'), { timeoutMillis: 100 }));
    expect(events).toEqual(['wanted']);
    await clock.advance(100);
    expect(await plain).toBe('POOL_EXHAUSTED');
    setTrouble(new EngineError('STREAM_HELD', 'held'));
    const held = codeOf(submissions.submit(batch('b'), { timeoutMillis: 100 }));
    await clock.advance(100);
    expect(await held).toBe('STREAM_HELD');
    expect(submissions.waitingCount).toBe(0);
    const target = new Scripted(() => 'take');
    submissions.attach(target);
    expect(target.asked).toEqual([]);
  });

  test('are not sent when no time is left for an answer', async () => {
    const { submissions } = queue();
    const target = new Scripted(() => 'take');
    submissions.attach(target);
    expect(await codeOf(submissions.submit(batch('a'), { timeoutMillis: 0 }))).toBe(
      'POOL_EXHAUSTED',
    );
    expect(target.asked).toEqual([]);
  });

  test('end by their signal while they wait, and leave the rest in order', async () => {
    const { submissions } = queue();
    const target = new Scripted(() => 'take');
    target.room = 0;
    submissions.attach(target);
    const controller = new AbortController();
    const first = codeOf(submissions.submit(batch('a'), { signal: controller.signal }));
    const second = codeOf(submissions.submit(batch('b'), {}));
    expect(await codeOf(submissions.submit(batch('c'), { signal: AbortSignal.abort() }))).toBe(
      'ABORTED',
    );
    controller.abort();
    expect(await first).toBe('ABORTED');
    target.room = 9;
    target.onRoom();
    expect(await second).toBe('taken');
    expect(target.taken).toEqual(['b']);
  });

  test('own their arrays while they wait', async () => {
    const { submissions } = queue();
    const records = [{ body: 'before' }];
    const outcome = codeOf(submissions.submit(checkBatch(records, false), {}));
    records[0]!.body = 'after';
    const target = new Scripted(() => 'take');
    submissions.attach(target);
    expect(await outcome).toBe('taken');
    expect(target.taken).toEqual(['before']);
  });

  test('are answered when the handle is closed, and taken no more', async () => {
    const { submissions } = queue();
    const waiting = codeOf(submissions.submit(batch('a'), {}));
    submissions.close(new EngineError('CLOSED', 'closed'));
    expect(await waiting).toBe('CLOSED');
    expect(await codeOf(submissions.submit(batch('b'), {}))).toBe('CLOSED');
  });
});
