import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Calls, type Call } from '../../../../src/adapters/calls/calls.ts';
import type { EngineError } from '../../../../src/lib/errors.ts';
import { deferred } from '../../../../src/lib/wait.ts';

type Answer = { readonly kind: 'done' } | { readonly kind: 'unknown'; readonly cause: EngineError };
const DONE: Answer = { kind: 'done' };

function request(work: (call: Call) => Promise<void>, signal?: AbortSignal) {
  return {
    what: 'create',
    signal,
    work: async (call: Call): Promise<Answer> => {
      await work(call);
      return DONE;
    },
    unknown: (cause: EngineError): Answer => ({ kind: 'unknown', cause }),
  };
}

const codeOf = (answer: Answer): string => (answer.kind === 'done' ? 'done' : answer.cause.code);
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

describe('calls of a bucket', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('works on so many at once and on the others in their order', async () => {
    const calls = new Calls('bucket', 3, 1_000);
    const gates = Array.from({ length: 8 }, () => deferred<void>());
    const begun: number[] = [];
    const answers = gates.map(({ promise }, index) =>
      calls.run(
        request(async () => {
          begun.push(index);
          await promise;
        }),
      ),
    );
    await turns();
    expect(begun).toEqual([0, 1, 2]);
    gates[1]!.resolve();
    await turns();
    expect(begun).toEqual([0, 1, 2, 3]);
    for (const { resolve } of gates) resolve();
    expect(await Promise.all(answers)).toEqual(gates.map(() => DONE));
    expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('lets a call go out of the queue by its signal, without working on it', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    const gate = deferred<void>();
    const first = calls.run(request(() => gate.promise));
    const controller = new AbortController();
    const work = vi.fn(async () => undefined);
    const queued = calls.run(request(work, controller.signal));
    const behind = calls.run(request(async () => undefined));
    controller.abort(new Error('enough'));
    expect(await queued).toMatchObject({ kind: 'unknown', cause: { code: 'ABORTED' } });
    gate.resolve();
    expect(await Promise.all([first, behind])).toEqual([DONE, DONE]);
    expect(work).not.toHaveBeenCalled();
  });

  it('answers at once when nothing of the caller is in use', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    const controller = new AbortController();
    let seen: Call | undefined;
    const gate = deferred<void>();
    const answer = calls.run(
      request(async (call) => {
        seen = call;
        await gate.promise;
      }, controller.signal),
    );
    controller.abort();
    expect(codeOf(await answer)).toBe('ABORTED');
    expect(seen?.abandoned?.code).toBe('ABORTED');
    gate.resolve();
  });

  it.each(['signal', 'time-out', 'both'] as const)(
    'keeps the caller waiting while its memory is in use (%s)',
    async (reason) => {
      const calls = new Calls('bucket', 1, 1_000);
      const controller = new AbortController();
      const touching = deferred<void>();
      const after = deferred<void>();
      let answer: Answer | undefined;
      void calls
        .run(
          request(async (call) => {
            await call.whileTouching(() => touching.promise);
            await after.promise;
          }, controller.signal),
        )
        .then((value) => (answer = value));
      await turns();
      if (reason !== 'time-out') controller.abort();
      if (reason !== 'signal') vi.advanceTimersByTime(1_000);
      await turns();
      expect(answer).toBeUndefined();
      touching.resolve();
      await turns();
      expect(codeOf(answer!)).toBe(reason === 'time-out' ? 'BUCKET_UNAVAILABLE' : 'ABORTED');
      after.resolve();
    },
  );

  it('ends work and queueing that take too long, and keeps the place of what still works', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    const gate = deferred<void>();
    const slow = calls.run(request(() => gate.promise));
    const queued = calls.run(request(async () => undefined));
    vi.advanceTimersByTime(999);
    const late = calls.run(request(async () => undefined));
    vi.advanceTimersByTime(1);
    expect(await slow).toMatchObject({
      kind: 'unknown',
      cause: { code: 'BUCKET_UNAVAILABLE', sideEffects: 'possible' },
    });
    expect(codeOf(await queued)).toBe('BUCKET_UNAVAILABLE');
    gate.resolve();
    expect(await late).toEqual(DONE);
  });

  it('listens once to a signal of many calls, and leaves nothing behind', async () => {
    const calls = new Calls('bucket', 2, 1_000);
    const controller = new AbortController();
    const add = vi.spyOn(controller.signal, 'addEventListener');
    const remove = vi.spyOn(controller.signal, 'removeEventListener');
    const answers = Array.from({ length: 5 }, () =>
      calls.run(request(async () => undefined, controller.signal)),
    );
    await Promise.all(answers);
    expect(vi.getTimerCount()).toBe(0);
    expect(add).toHaveBeenCalledTimes(1);
    expect(remove).toHaveBeenCalledTimes(1);
    const waiting = Array.from({ length: 20 }, () =>
      calls.run(request(() => new Promise(() => undefined), controller.signal)),
    );
    controller.abort();
    for (const answer of await Promise.all(waiting)) expect(codeOf(answer)).toBe('ABORTED');
    expect(add).toHaveBeenCalledTimes(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('lets only so many wait, and so many bytes, and tells the others at once', async () => {
    const calls = new Calls('bucket', 1, 1_000, { calls: 3, bytes: 100 });
    const gate = deferred<void>();
    const worked = vi.fn(async () => undefined);
    const sized = (sizeBytes: number, signal?: AbortSignal): Promise<Answer> =>
      calls.run({ ...request(worked, signal), sizeBytes });
    const crowded = {
      kind: 'unknown',
      cause: { code: 'BUCKET_UNAVAILABLE', sideEffects: 'none', retryable: true },
    };
    const running = calls.run(request(() => gate.promise));
    const controller = new AbortController();
    // One that waits alone may be larger.
    const large = sized(500, controller.signal);
    expect(await sized(1)).toMatchObject(crowded);
    controller.abort();
    expect(codeOf(await large)).toBe('ABORTED');
    const waiting = [sized(50), sized(50), sized(0)];
    expect(await sized(0)).toMatchObject(crowded);
    expect(await sized(0)).toMatchObject({ cause: { details: { calls: 3, callsMax: 3 } } });
    gate.resolve();
    expect(await Promise.all([running, ...waiting])).toEqual([DONE, DONE, DONE, DONE]);
    expect(worked).toHaveBeenCalledTimes(3);
    // All room is there again.
    const again = deferred<void>();
    const blocked = calls.run(request(() => again.promise));
    const last = [sized(50), sized(50)];
    expect(await sized(1)).toMatchObject(crowded);
    again.resolve();
    expect(await Promise.all([blocked, ...last])).toEqual([DONE, DONE, DONE]);
  });

  it('takes as many as its limit says now', async () => {
    const limit = { concurrent: 3 };
    const calls = new Calls('bucket', limit, 1_000);
    const gates = Array.from({ length: 9 }, () => deferred<void>());
    const begun: number[] = [];
    const answers = gates.map(({ promise }, index) =>
      calls.run(
        request(async () => {
          begun.push(index);
          await promise;
        }),
      ),
    );
    limit.concurrent = 1;
    gates[0]!.resolve();
    gates[1]!.resolve();
    await turns();
    expect(begun).toEqual([0, 1, 2]);
    limit.concurrent = 4;
    gates[2]!.resolve();
    await turns();
    expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6]);
    for (const { resolve } of gates) resolve();
    expect(await Promise.all(answers)).toEqual(gates.map(() => DONE));
  });

  it('tells the work once that its caller has given up', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    const controller = new AbortController();
    const gate = deferred<void>();
    const told = vi.fn();
    const answer = calls.run(
      request(async (call) => {
        call.onAbandoned = () => {
          told(call.abandoned?.code);
          gate.resolve();
        };
        await call.whileTouching(() => gate.promise);
      }, controller.signal),
    );
    controller.abort();
    expect(codeOf(await answer)).toBe('ABORTED');
    vi.advanceTimersByTime(2_000);
    expect(told.mock.calls).toEqual([['ABORTED']]);
  });

  it('passes a failure of the work on', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    await expect(calls.run(request(() => Promise.reject(new Error('a bug'))))).rejects.toThrow(
      'a bug',
    );
    expect(await calls.run(request(async () => undefined))).toEqual(DONE);
  });

  it('closes when all have ended, and says so when some hang', async () => {
    const calls = new Calls('bucket', 1, 1_000);
    const gate = deferred<void>();
    const running = calls.run(request(() => gate.promise));
    const queued = calls.run(request(async () => undefined));
    const closing = calls.close();
    expect(codeOf(await calls.run(request(async () => undefined)))).toBe('CLOSED');
    gate.resolve();
    expect(await Promise.all([running, queued])).toEqual([DONE, DONE]);
    expect(await closing).toBe(true);

    const hanging = new Calls('bucket', 1, 1_000);
    void hanging.run(request(() => new Promise(() => undefined)));
    const givenUp = hanging.close();
    vi.advanceTimersByTime(1_000);
    expect(await givenUp).toBe(false);
  });
});
