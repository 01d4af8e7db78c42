import { describe, expect, it } from 'vitest';
import { CommitQueue } from '../../../../src/adapters/lmdb/commit-queue.ts';
import type { CommitTarget } from '../../../../src/adapters/lmdb/commit-queue.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import { deferred } from '../../../../src/lib/wait.ts';
import type { Deferred } from '../../../../src/lib/wait.ts';
import { settle } from '../../../support/manual-clock.ts';

/** A database whose every step waits for the test. */
class HandDrivenTarget implements CommitTarget {
  readonly transactions: { grant: () => void; commit: Deferred<void> }[] = [];
  flush = deferred<void>();

  get flushed(): Promise<void> {
    return this.flush.promise;
  }

  async childTransaction<T>(run: () => T): Promise<T> {
    const granted = deferred<void>();
    const commit = deferred<void>();
    this.transactions.push({ grant: () => granted.resolve(), commit });
    await granted.promise;
    const result = run();
    await commit.promise;
    return result;
  }

  async pass(index: number): Promise<void> {
    await settle();
    this.transactions[index]!.grant();
    await settle();
    this.transactions[index]!.commit.resolve();
    await settle();
  }
}

function setUp(timeoutMillis = 60_000) {
  const target = new HandDrivenTarget();
  const groups: (readonly string[])[] = [];
  const log: string[] = [];
  const queue = new CommitQueue<string, string>({
    target,
    apply: (writes) => {
      groups.push(writes);
      return writes.map((write) =>
        write.startsWith('bad')
          ? { kind: 'error', error: new EngineError('METASTORE_CORRUPT', write) }
          : { kind: 'answer', answer: `did ${write}` },
      );
    },
    bytesOf: (write) => (write.startsWith('huge') ? 3 * 1024 * 1024 : write.length),
    onCommitted: () => log.push('committed'),
    failureOf: (cause, groupBytes) =>
      new EngineError('METASTORE_INDETERMINATE', 'failed', { cause, details: { groupBytes } }),
    timeoutMillis,
    queueMax: 100,
  });
  const submit = (write: string, signal?: AbortSignal): Promise<string> => {
    const promise = queue.submit(write, signal);
    promise.then(
      (answer) => log.push(answer),
      (error: unknown) => log.push((error as EngineError).code),
    );
    return promise;
  };
  return { target, queue, groups, log, submit };
}

describe('the commit queue', () => {
  it('answers only after the commit is flushed to disk', async () => {
    const { target, log, submit } = setUp();
    void submit('a');
    await target.pass(0);
    expect(log).toEqual([]);
    target.flush.resolve();
    await settle();
    expect(log).toEqual(['committed', 'did a']);
  });

  it('takes everything that waits once the lock is granted, in order, into one commit', async () => {
    const { target, groups, submit, log } = setUp();
    target.flush.resolve();
    void submit('a');
    await settle();
    void submit('b');
    void submit('c');
    await target.pass(0);
    expect(groups).toEqual([['a', 'b', 'c']]);
    expect(log).toEqual(['committed', 'did a', 'did b', 'did c']);
    void submit('d');
    await target.pass(1);
    expect(groups).toEqual([['a', 'b', 'c'], ['d']]);
  });

  it('keeps groups within a few megabytes', async () => {
    const { target, groups, submit } = setUp();
    target.flush.resolve();
    for (const write of ['huge 1', 'huge 2', 'huge 3']) void submit(write);
    await target.pass(0);
    await target.pass(1);
    expect(groups).toEqual([['huge 1', 'huge 2'], ['huge 3']]);
  });

  it('fails one bad write without its neighbours', async () => {
    const { target, log, submit } = setUp();
    target.flush.resolve();
    submit('bad').catch(() => undefined);
    void submit('b');
    await target.pass(0);
    expect(log).toEqual(['committed', 'METASTORE_CORRUPT', 'did b']);
  });

  it('fails a whole group whose commit failed, and goes on with the next', async () => {
    const { target, log, submit } = setUp();
    target.flush.resolve();
    const first = submit('a');
    first.catch(() => undefined);
    submit('bb').catch(() => undefined);
    await settle();
    target.transactions[0]!.grant();
    await settle();
    void submit('c');
    target.transactions[0]!.commit.reject(new Error('disk'));
    await settle();
    expect(log).toEqual(['METASTORE_INDETERMINATE', 'METASTORE_INDETERMINATE']);
    await expect(first).rejects.toMatchObject({ details: { groupBytes: 3 } });
    await target.pass(1);
    expect(log.slice(2)).toEqual(['committed', 'did c']);
  });

  it('fails what is queued when a transaction cannot even begin', async () => {
    const { target, log, submit } = setUp();
    target.childTransaction = () => Promise.reject(new Error('no'));
    submit('a').catch(() => undefined);
    await settle();
    expect(log).toEqual(['METASTORE_INDETERMINATE']);
  });

  it('drops an aborted write that no transaction holds yet, and says so', async () => {
    const { target, groups, submit } = setUp();
    target.flush.resolve();
    const controller = new AbortController();
    const a = submit('a', controller.signal);
    void submit('b');
    controller.abort(new Error('enough'));
    await expect(a).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'none' });
    await target.pass(0);
    expect(groups).toEqual([['b']]);
  });

  it('calls an aborted write possible once a transaction holds it', async () => {
    const { target, submit, log } = setUp();
    target.flush.resolve();
    const controller = new AbortController();
    const a = submit('a', controller.signal);
    await settle();
    target.transactions[0]!.grant();
    await settle();
    controller.abort();
    await expect(a).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'possible' });
    target.transactions[0]!.commit.resolve();
    await settle();
    expect(log).toEqual(['ABORTED', 'committed']);
  });

  it('gives up in time: never applied while queued, indeterminate once submitted', async () => {
    const { target, submit, groups } = setUp(30);
    const submitted = submit('a');
    await settle();
    target.transactions[0]!.grant();
    await settle();
    const queued = submit('b');
    await expect(submitted).rejects.toMatchObject({
      code: 'METASTORE_INDETERMINATE',
      sideEffects: 'possible',
    });
    await expect(queued).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
      sideEffects: 'none',
    });
    // The lock comes free at last: what gave up is not applied late.
    target.flush.resolve();
    target.transactions[0]!.commit.resolve();
    await target.pass(1);
    expect(groups).toEqual([['a'], []]);
  });

  it('closes once every accepted write was answered, and refuses new ones at once', async () => {
    const { target, queue, submit, log } = setUp();
    target.flush.resolve();
    void submit('a');
    let closed = false;
    void queue.close().then(() => (closed = true));
    await expect(queue.submit('late', undefined)).rejects.toMatchObject({ code: 'CLOSED' });
    await settle();
    expect(closed).toBe(false);
    await target.pass(0);
    expect(log).toEqual(['committed', 'did a']);
    expect(closed).toBe(true);
    await queue.close();
  });

  it('closes even when the database never answers', async () => {
    const { queue, submit } = setUp(20);
    submit('a').catch(() => undefined);
    await queue.close();
  });

  it('refuses writes beyond its bound, and takes them again when the others gave up', async () => {
    const { submit } = setUp();
    const controllers = Array.from({ length: 100 }, () => new AbortController());
    for (const { signal } of controllers) submit('a', signal).catch(() => undefined);
    await expect(submit('b')).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
      sideEffects: 'none',
    });
    for (const controller of controllers) controller.abort();
    await settle();
    const again = submit('c');
    await expect(Promise.race([again, settle()])).resolves.toBeUndefined();
  });
});
