import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openEnvironment } from '../../../../src/adapters/lmdb/environment.ts';
import type { LmdbEnvironment } from '../../../../src/adapters/lmdb/environment.ts';
import { Table, deleteWrite, putWrite } from '../../../../src/adapters/lmdb/table.ts';
import { VersionSource } from '../../../../src/adapters/lmdb/versions.ts';
import { deferred } from '../../../../src/lib/wait.ts';

const value = Buffer.from('x');

describe('the table in an LMDB file', () => {
  let directory: string;
  let environment: LmdbEnvironment;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'asterlog-metastore-'));
    environment = openEnvironment(directory, false);
  });
  afterEach(async () => {
    await environment.close();
    await rm(directory, { recursive: true });
  });

  /** The same environment, but the promise of being on disk is the test's. */
  function withFlushed(flushed: Promise<boolean>): Table {
    const entries = new Proxy(environment.entries, {
      get: (target, name) => {
        const found: unknown =
          name === 'flushed' ? flushed : (target as never as Record<PropertyKey, unknown>)[name];
        return typeof found === 'function' ? (found.bind(target) as unknown) : found;
      },
    });
    return new Table({ ...environment, entries });
  }

  it('answers nothing before everything committed is flushed to disk', async () => {
    const flushed = deferred<boolean>();
    const table = withFlushed(flushed.promise);
    let answered = false;
    const commit = table.commit([putWrite('k', value, 'absent')]);
    void commit.then(() => (answered = true));
    await expect.poll(() => table.get('k')?.version, { interval: 2 }).toBeDefined();
    await new Promise((done) => setTimeout(done, 30));
    expect(answered).toBe(false);
    flushed.resolve(true);
    expect(await commit).toMatchObject([{ answer: { kind: 'applied' } }]);
  });

  it('does not know what became of writes whose flush failed', async () => {
    const flushed = Promise.reject<boolean>(new Error('disk'));
    flushed.catch(() => undefined);
    const table = withFlushed(flushed);
    expect(await table.commit([putWrite('k', value, 'absent')])).toMatchObject([
      { kind: 'error', error: { code: 'METASTORE_INDETERMINATE', sideEffects: 'possible' } },
    ]);
  });

  it('judges the writes of one commit one after the other', async () => {
    const table = new Table(environment);
    const [first] = await table.commit([
      putWrite('k', Buffer.from('1'), 'absent'),
      putWrite('k', Buffer.from('2'), 'absent'),
      deleteWrite('other', 1),
    ]);
    const { version } = (first as { answer: { version: number } }).answer;
    expect(first).toMatchObject({ answer: { kind: 'applied' } });
    const answers = await table.commit([
      putWrite('k', Buffer.from('3'), version),
      deleteWrite('k', version),
      putWrite('k', Buffer.from('4'), 'absent'),
      putWrite('k', Buffer.from('5'), 'a version of another store'),
    ]);
    expect(answers.map((one) => one.kind === 'answer' && one.answer.kind)).toEqual([
      'applied',
      'conflict',
      'conflict',
      'conflict',
    ]);
    expect(table.get('k')?.value).toEqual(new Uint8Array(Buffer.from('3')));
  });

  it('moves the mark of a segment with every change under it, and no other', async () => {
    const table = new Table(environment);
    const marks = () => ['stars/', 'streams/', 'sta', ''].map((prefix) => table.changeMark(prefix));
    const changed = async (write: ReturnType<typeof putWrite>): Promise<boolean[]> => {
      const before = marks();
      const [answer] = await table.commit([write]);
      const after = marks();
      if (answer?.kind === 'answer' && answer.answer.kind === 'applied') {
        version = answer.answer.version;
      }
      return after.map((mark, index) => mark !== before[index]);
    };
    let version: number | string = 0;
    expect(await changed(putWrite('stars/a', value, 'absent'))).toEqual([true, false, true, true]);
    expect(await changed(putWrite('stars/a', value, 'absent'))).toEqual(marks().map(() => false));
    expect(await changed(putWrite('streams/1/writer', value, 'absent'))).toEqual([
      false,
      true,
      false,
      true,
    ]);
    const { version: star } = table.get('stars/a')!;
    expect(await changed(deleteWrite('stars/a', star))).toEqual([true, false, true, true]);
    expect(version).not.toBe(0);
  });

  it('never gives out a version twice, over reopenings and used-up blocks', async () => {
    const seen = new Set<number>();
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 3; i++) {
        const version = environment.versions.next();
        expect(Number.isSafeInteger(version) && !seen.has(version)).toBe(true);
        seen.add(version);
      }
      await environment.close();
      environment = openEnvironment(directory, false);
    }
    environment.versions.next();
    const other = new VersionSource(environment.system).next();
    for (let i = 1; i < 2 ** 24; i++) environment.versions.next();
    expect(environment.versions.next()).toBe(other + 2 ** 24);
  });
});
