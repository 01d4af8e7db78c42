/** Many calls that wait for batches, one timer: each is answered once, at its own deadline at the latest. */
import { describe, expect, it } from 'vitest';
import { BatchOutcome } from '../../../actors/batch-outcome.ts';
import { Deadlines } from '../../../actors/deadlines.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { ManualClock } from '../../support/manual-clock.ts';

interface Answer {
  readonly seqNum: number;
}

function world() {
  const clock = new ManualClock();
  const deadlines = new Deadlines(clock, 100);
  const answers: string[] = [];
  const ask = (name: string, outcome: BatchOutcome<Answer>): void => {
    const late = (): EngineError => new EngineError('DEADLINE_EXCEEDED', `${name} is late`);
    outcome.waitWithin(deadlines, late).then(
      ({ seqNum }) => answers.push(`${name} ${seqNum}`),
      (error: unknown) => answers.push(`${name} ${(error as EngineError).code}`),
    );
  };
  return { clock, deadlines, answers, ask };
}

/** Lets answers arrive. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}

describe('BatchOutcome', () => {
  it('answers all who wait and all who come later', async () => {
    const { answers, ask } = world();
    const outcome = new BatchOutcome<Answer>();
    ask('a', outcome);
    ask('b', outcome);
    outcome.resolve({ seqNum: 7 });
    ask('c', outcome);
    await settled();
    expect(answers).toEqual(['a 7', 'b 7', 'c 7']);
    expect(await outcome.wait()).toEqual({ seqNum: 7 });
  });

  it('keeps a failure for those who come later, and needs nobody to hear of it', async () => {
    const { answers, ask } = world();
    const outcome = new BatchOutcome<Answer>();
    outcome.reject(new EngineError('FENCED', 'over'));
    await settled();
    ask('a', outcome);
    await settled();
    expect(answers).toEqual(['a FENCED']);
  });

  it('ends each wait at its own deadline, and no timer is left', async () => {
    const { clock, answers, ask } = world();
    const first = new BatchOutcome<Answer>();
    const second = new BatchOutcome<Answer>();
    ask('a', first);
    await clock.advance(60);
    ask('b', second);
    expect(clock.pendingCount).toBe(1);
    await clock.advance(39);
    await settled();
    expect(answers).toEqual([]);
    await clock.advance(1);
    await settled();
    expect(answers).toEqual(['a DEADLINE_EXCEEDED']);
    expect(clock.pendingCount).toBe(1);
    await clock.advance(60);
    await settled();
    expect(answers).toEqual(['a DEADLINE_EXCEEDED', 'b DEADLINE_EXCEEDED']);
    expect(clock.pendingCount).toBe(0);
  });

  it('stops the timer with the last answer, and starts it for the next wait', async () => {
    const { clock, answers, ask } = world();
    const first = new BatchOutcome<Answer>();
    ask('a', first);
    await clock.advance(50);
    first.resolve({ seqNum: 1 });
    expect(clock.pendingCount).toBe(0);
    ask('b', new BatchOutcome<Answer>());
    await clock.advance(99);
    await settled();
    expect(answers).toEqual(['a 1']);
    await clock.advance(1);
    await settled();
    expect(answers).toEqual(['a 1', 'b DEADLINE_EXCEEDED']);
  });
});
