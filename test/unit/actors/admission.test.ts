/** Who gets memory, in which order, and who is kept waiting by whom. */
import { describe, expect, it } from 'vitest';
import { Admission, type Admittance } from '../../../actors/admission.ts';
import { ManualClock } from '../../support/manual-clock.ts';

const KIB = 1024;

function world() {
  const clock = new ManualClock();
  const admission = new Admission(clock, 1 << 20);
  const admitted: string[] = [];
  const answers = new Map<string, ReturnType<Admittance['tryAdmit']> | Error>();
  const ask = async (stream: string, name = stream): Promise<void> =>
    admission.admit(
      {
        bytes: KIB,
        tryAdmit: () => {
          const answer = answers.get(stream) ?? 'admitted';
          if (answer instanceof Error) throw answer;
          if (answer === 'admitted') admitted.push(name);
          return answer;
        },
        queued: () => undefined,
      },
      { timeoutMillis: 10_000 },
      () => undefined,
    );
  return { clock, admission, admitted, answers, ask };
}

describe('Admission', () => {
  it('lets a stream that waits for something of its own keep nobody else waiting', async () => {
    const { admission, admitted, answers, ask } = world();
    answers.set('x', 'later');
    const first = ask('x', 'x1');
    await ask('y', 'y1');
    const second = ask('x', 'x2');
    await ask('y', 'y2');
    expect(admitted).toEqual(['y1', 'y2']);
    answers.delete('x');
    admission.drain();
    await Promise.all([first, second]);
    expect(admitted).toEqual(['y1', 'y2', 'x1', 'x2']);
  });

  it('keeps the order of all while memory is what is missing', async () => {
    const { admission, admitted, answers, ask } = world();
    answers.set('x', 'full');
    const waits = [ask('x'), ask('y')];
    admission.drain();
    expect(admitted).toEqual([]);
    answers.delete('x');
    admission.drain();
    await Promise.all(waits);
    expect(admitted).toEqual(['x', 'y']);
  });

  it('rejects one whose wait is pointless and goes on with the others', async () => {
    const { admission, admitted, answers, ask } = world();
    answers.set('x', 'later');
    const x = ask('x');
    answers.set('y', 'full');
    const y = ask('y');
    answers.set('x', new Error('gone'));
    answers.delete('y');
    admission.drain();
    await expect(x).rejects.toThrow('gone');
    await y;
    expect(admitted).toEqual(['y']);
  });
});
