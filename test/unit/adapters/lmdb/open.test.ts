import { chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { asNobody } from '../../../support/nobody.ts';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';
import { spawnTypeScript } from '../../../support/child-process.ts';
import type { ChildOptions } from '../../../support/child-process.ts';

const OPENER = new URL('./opener.process.ts', import.meta.url);
const FULL_DISK = new URL('./full-disk.process.ts', import.meta.url);

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asterlog-metastore-'));
  file = join(directory, 'metastore.lmdb');
});
afterEach(() => rm(directory, { recursive: true }));

async function fill(path = directory): Promise<void> {
  const store = await LmdbMetastore.open({ directory: path });
  await Promise.all(
    Array.from({ length: 100 }, (_, i) => store.put(`k/${i}`, Buffer.alloc(3_000, i), 'absent')),
  );
  await store.close();
}

/** LMDB ends the process on what it does not expect: whoever tries it does so in another one. */
async function refusals(paths: readonly string[], options: ChildOptions = {}): Promise<unknown[]> {
  const child = spawnTypeScript(OPENER, paths, options);
  const ended = await child.ended;
  expect(ended, child.errors()).toEqual({ code: 0, signal: null });
  const lines = child.output().split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as unknown);
}

const corrupt = (problem: string) => ({ code: 'METASTORE_CORRUPT', details: { problem } });

describe('what an LMDB metastore does not open', () => {
  it('is refused with a code, and left as it was', async () => {
    const damaged: [Buffer, object][] = [
      [Buffer.alloc(9_000, 'x'), corrupt('not written by LMDB')],
      [Buffer.alloc(9_000), corrupt('not written by LMDB')],
      [Buffer.from('hello'), corrupt('cut short')],
    ];
    await fill();
    const whole = await readFile(file);
    // Its trees begin beyond its end.
    damaged.push([whole.subarray(0, 8_192), corrupt('cut short')]);
    const paths = await Promise.all(
      damaged.map(async ([bytes], index) => {
        const path = join(directory, `${index}`);
        await mkdir(path);
        await writeFile(join(path, 'metastore.lmdb'), bytes);
        return path;
      }),
    );
    const found = await refusals(paths);
    for (const [index, [bytes, expected]] of damaged.entries()) {
      expect(found[index]).toMatchObject(expected);
      expect(await readFile(join(paths[index]!, 'metastore.lmdb'))).toEqual(bytes);
    }
  });

  it('is a file of another program or another version', async () => {
    const theirs = join(directory, 'theirs');
    const other = open({ path: join(theirs, 'metastore.lmdb'), noSubdir: true });
    await other.put('their key', 'data');
    await other.close();
    await fill();
    const binary = { keyEncoding: 'binary', encoding: 'binary' } as const;
    const root = open({ path: file, noSubdir: true, ...binary });
    const system = root.openDB({ name: 'asterlog.system', ...binary });
    await system.put(Buffer.from('layout'), Buffer.from('2'));
    await root.close();
    expect(await refusals([theirs, directory])).toMatchObject([
      corrupt('belongs to another program'),
      { code: 'LAYOUT_VERSION', details: { path: file, found: '2', supported: '1' } },
    ]);
    const again = open({ path: join(theirs, 'metastore.lmdb'), noSubdir: true });
    expect([...again.getKeys()]).toEqual(['their key']);
    await again.close();
  });

  it('is a directory that cannot be used', async (context) => {
    const somebody = asNobody();
    // Root may write anywhere, so somebody else tries, where somebody else can run at all.
    if (somebody === undefined) return context.skip();
    await writeFile(join(directory, 'file'), 'x');
    const closed = join(directory, 'closed');
    await mkdir(closed);
    await chmod(closed, 0o555);
    await chmod(directory, 0o755);
    const paths = [
      join(directory, 'file'),
      join(directory, 'file/deeper'),
      closed,
      join(closed, 'deeper'),
      // Node's own way to make directories never ends here.
      '/proc/asterlog',
      `read-only:${closed}`,
    ];
    expect(await refusals(paths, somebody)).toMatchObject([
      { code: 'INVALID_OPTION' },
      { code: 'INVALID_OPTION', details: { reason: 'ENOTDIR' } },
      { code: 'METASTORE_UNAVAILABLE', details: { reason: 'EACCES' } },
      { code: 'METASTORE_UNAVAILABLE', details: { reason: 'EACCES' } },
      { code: 'METASTORE_UNAVAILABLE' },
      { code: 'METASTORE_UNAVAILABLE', details: { reason: 'ENOENT' } },
    ]);
  });
});

describe('an LMDB metastore that opens', () => {
  it('was created with its directory, and is found again', async () => {
    const deep = join(directory, 'a/b/c');
    const first = await LmdbMetastore.open({ directory: deep });
    await first.put('k', Buffer.from('x'), 'absent');
    await first.close();
    expect((await readdir(deep)).sort()).toEqual(['metastore.lmdb', 'metastore.lmdb-lock']);
    const second = await LmdbMetastore.open({ directory: deep });
    expect((await second.get('k'))?.version).toBe(1);
    await second.close();
  });

  it('names the key of an entry whose bytes rotted, and serves the others', async () => {
    await fill();
    const bytes = await readFile(file);
    const at = bytes.indexOf(Buffer.alloc(64, 42));
    expect(at).toBeGreaterThan(0);
    bytes[at + 7]! ^= 1;
    await writeFile(file, bytes);
    const store = await LmdbMetastore.open({ directory });
    const corrupt = { code: 'METASTORE_CORRUPT', details: { key: 'k/42' } };
    await expect(store.get('k/42')).rejects.toMatchObject(corrupt);
    await expect(store.children('k/')).rejects.toMatchObject(corrupt);
    const calls = [
      store.put('k/42', Buffer.from('x'), 1),
      store.put('k/43', Buffer.from('x'), 'absent'),
    ];
    await expect(calls[0]).rejects.toMatchObject(corrupt);
    await expect(calls[1]).resolves.toMatchObject({ kind: 'conflict' });
    expect((await store.get('k/41'))?.value.length).toBe(3_000);
    await store.close();
  });

  it('reads, and only reads, what is there', async () => {
    await expect(LmdbMetastore.open({ directory, readOnly: true })).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
    });
    expect(await readdir(directory)).toEqual([]);
    await fill();
    const store = await LmdbMetastore.open({ directory, readOnly: true });
    expect((await store.children('k/', { limit: 2 })).length).toBe(2);
    const writes = [store.put('k/x', Buffer.from('x'), 'absent'), store.delete('k/1', 1)];
    for (const write of writes) await expect(write).rejects.toMatchObject({ kind: 'invalid' });
    const writer = await LmdbMetastore.open({ directory });
    await writer.put('k/new', Buffer.from('x'), 'absent');
    expect((await store.get('k/new'))?.value).toEqual(new Uint8Array(Buffer.from('x')));
    await writer.close();
    expect((await store.get('k/new'))?.value).toEqual(new Uint8Array(Buffer.from('x')));
    await store.close();
  });

  it('survives a file that cannot grow: coded refusals, nothing lost, writable again', async () => {
    const child = spawnTypeScript(FULL_DISK, [directory], {
      // A bound on the size of files stands in for a full disk.
      shellPrefix: 'trap "" XFSZ; ulimit -f 2000; exec "$@"',
    });
    const ended = await child.ended;
    expect(ended, child.errors()).toEqual({ code: 0, signal: null });
    const told = JSON.parse(child.output()) as {
      stored: number;
      readable: number;
      failures: readonly string[];
      after: string;
    };
    expect(told.failures.length).toBe(5);
    for (const code of told.failures) {
      expect(['METASTORE_UNAVAILABLE', 'METASTORE_INDETERMINATE']).toContain(code);
    }
    expect(told.stored).toBeGreaterThan(5);
    expect(told.readable).toBe(told.stored);
    expect(told.after).toBe('applied');
    const store = await LmdbMetastore.open({ directory });
    expect((await store.children('k/')).length).toBe(told.readable - 3);
    await store.close();
  });
});
