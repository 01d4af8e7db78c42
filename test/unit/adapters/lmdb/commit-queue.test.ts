import { describe, expect, it } from 'vitest';
import { CommitQueue } from '../../../../src/adapters/lmdb/commit-queue.ts';
import type { Answer } from '../../../../src/adapters/lmdb/commit-queue.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import { deferred } from '../../../../src/lib/wait.ts';
import type { Deferred } from '../../../../src/lib/wait.ts';
import { settle } from '../../../support/manual-clock.ts';

function setUp(timeoutMillis = 60_000) {
  const groups: (readonly string[])[] = [];
  const commits: Deferred<void>[] = [];
  const log: string[] = [];
  const queue = new CommitQueue<string, string>({
    commit: async (writes) => {
      groups.push(writes);
      const commit = deferred<void>();
      commits.push(commit);
      await commit.promise;
      return writes.map((write): Answer<string> =>
        write.startsWith('bad')
          ? { kind: 'error', error: new EngineError('METASTORE_CORRUPT', write) }
          : { kind: 'answer', answer: `did ${write}` },
      );
    },
    bytesOf: (write) => (write.startsWith('huge') ? 3 * 1024 * 1024 : write.length),
    onCommitted: () => log.push('committed'),
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
  const pass = async (index: number): Promise<void> => {
    await settle();
    commits[index]!.resolve();
    await settle();
  };
  return { queue, groups, commits, log, submit, pass };
}

describe('the commit queue', () => {
  it('answers a write when its group is on disk, not before', async () => {
    const { log, submit, pass } = setUp();
    void submit('a');
    await settle();
    expect(log).toEqual([]);
    await pass(0);
    expect(log).toEqual(['committed', 'did a']);
  });

  it('commits together what comes in one turn, or while another group is committed', async () => {
    const { groups, log, submit, pass } = setUp();
    void submit('a');
    void submit('b');
    await settle();
    void submit('c');
    await settle();
    void submit('d');
    expect(groups).toEqual([['a', 'b']]);
    await pass(0);
    expect(groups).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ]);
    await pass(1);
    expect(log).toEqual(['committed', 'did a', 'did b', 'committed', 'did c', 'did d']);
  });

  it('keeps groups within a few megabytes', async () => {
    const { groups, submit, pass } = setUp();
    for (const write of ['huge 1', 'huge 2', 'huge 3']) void submit(write);
    await pass(0);
    await pass(1);
    expect(groups).toEqual([['huge 1', 'huge 2'], ['huge 3']]);
  });

  it('fails one bad write without its neighbours', async () => {
    const { log, submit, pass } = setUp();
    submit('bad').catch(() => undefined);
    void submit('b');
    await pass(0);
    expect(log).toEqual(['committed', 'METASTORE_CORRUPT', 'did b']);
  });

  it('calls a group that could not begin not applied, and goes on with the next', async () => {
    const { commits, log, submit, pass } = setUp();
    const first = submit('a');
    first.catch(() => undefined);
    await settle();
    void submit('c');
    commits[0]!.reject(new Error('disk'));
    await expect(first).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
      sideEffects: 'none',
    });
    await pass(1);
    expect(log).toEqual(['METASTORE_UNAVAILABLE', 'committed', 'did c']);
  });

  it('drops an aborted write that still waits, and says so', async () => {
    const { groups, submit, pass } = setUp();
    const controller = new AbortController();
    const a = submit('a', controller.signal);
    void submit('b');
    controller.abort(new Error('enough'));
    await expect(a).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'none' });
    await pass(0);
    expect(groups).toEqual([['b']]);
  });

  it('calls an aborted write possible once the database has it', async () => {
    const { submit, log, pass } = setUp();
    const controller = new AbortController();
    const a = submit('a', controller.signal);
    await settle();
    controller.abort();
    await expect(a).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'possible' });
    await pass(0);
    expect(log).toEqual(['ABORTED', 'committed']);
  });

  it('gives up in time: never applied while it waits, indeterminate once submitted', async () => {
    const { submit, groups, pass } = setUp(30);
    const submitted = submit('a');
    await settle();
    const waiting = submit('b');
    await expect(submitted).rejects.toMatchObject({
      code: 'METASTORE_INDETERMINATE',
      sideEffects: 'possible',
    });
    await expect(waiting).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
      sideEffects: 'none',
    });
    // The database goes on at last: what gave up before is not applied late.
    await pass(0);
    expect(groups).toEqual([['a']]);
    void submit('c');
    await pass(1);
    expect(groups).toEqual([['a'], ['c']]);
  });

  it('closes once every accepted write was answered, and refuses new ones at once', async () => {
    const { queue, submit, log, pass } = setUp();
    void submit('a');
    let closed = false;
    void queue.close().then(() => (closed = true));
    await expect(queue.submit('late', undefined)).rejects.toMatchObject({ code: 'CLOSED' });
    await settle();
    expect(closed).toBe(false);
    await pass(0);
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
