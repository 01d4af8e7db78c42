import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { documentOf, freshRoot, run, start, temporaryFolder } from './support.ts';

const LICENSE = fileURLToPath(new URL('../../LICENSE', import.meta.url));

describe('append and read', () => {
  it('give back a text as it was', async () => {
    const root = freshRoot();
    const text = readFileSync(LICENSE, 'utf8');
    const lines = text.split('\n').length - 1;
    const summary = documentOf(await run(['append', '--stream', 's', '--json', ...root, LICENSE]));
    expect(summary).toMatchObject({ stream: 's', records: lines, start: { seqNum: 0 } });
    expect(summary).toMatchObject({ end: { seqNum: lines }, bytes: text.length - lines });
    expect((await run(['read', 's', ...root])).stdout).toBe(text);

    // A second process goes on behind the first.
    const more = documentOf(await run(['append', '--stream', 's', '--json', ...root], 'one\ntwo'));
    expect(more).toMatchObject({
      records: 2,
      start: { seqNum: lines },
      end: { seqNum: lines + 2 },
    });
    const tail = await run(['read', 's', '--tail-offset', '2', ...root]);
    expect(tail.stdout).toBe('one\ntwo\n');
    const from = await run(['read', 's', '--from', '1', '--limit', '2', ...root]);
    expect(from.stdout).toBe(`${text.split('\n').slice(1, 3).join('\n')}\n`);
  });

  it('take what the other prints as JSON', async () => {
    const root = freshRoot();
    const input = [
      { body: 'grüße', headers: [['k', 'v']], timestamp: 1_000 },
      { bodyBase64: '/wA=', timestamp: 2_000 },
      { headersBase64: [['/w==', '']], body: '', timestamp: 3_000 },
    ];
    const ndjson = input.map((record) => `${JSON.stringify(record)}\n`).join('');
    const args = ['--format', 'ndjson', ...root];
    documentOf(await run(['append', '--stream', 'a', '--json', ...args], ndjson));
    const first = (await run(['read', 'a', ...args])).stdout;
    expect(
      first
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object),
    ).toEqual(input.map((record, seqNum) => ({ seqNum, ...record })));
    documentOf(await run(['append', '--stream', 'b', '--json', ...args], first));
    expect((await run(['read', 'b', ...args])).stdout).toBe(first);
    const later = await run(['read', 'a', '--timestamp', '2000', '--json', ...root]);
    expect(later.stdout).toBe(first.split('\n').slice(1).join('\n'));
  });

  it('read several inputs, standard input among them', async () => {
    const root = freshRoot();
    const file = join(temporaryFolder(), 'input.txt');
    writeFileSync(file, 'from file');
    const done = await run(['append', '--stream', 's', ...root, file, '-'], 'from stdin\n');
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(
      /^2 records \(19 B\) acknowledged in .*\ns: sequence numbers \[0, 2\)\n$/,
    );
    expect((await run(['read', 's', ...root])).stdout).toBe('from file\nfrom stdin\n');
  });

  it('say how much of a bad input is durable', async () => {
    const root = freshRoot();
    const input = `{"body":"good"}\n{"body":1}\n`;
    const args = [
      'append',
      '--stream',
      's',
      '--format',
      'ndjson',
      '--batch',
      '1',
      '--json',
      ...root,
    ];
    const { code, stdout, stderr } = await run(args, input);
    expect(code).toBe(2);
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: 'INVALID_RECORD', details: { line: 2, path: 'body' }, exitCode: 2 },
    });
    const { records } = JSON.parse(stdout) as { records: number };
    const kept = (await run(['read', 's', '--json', ...root])).stdout;
    expect(kept.split('\n').length - 1).toBe(records);
  });
});

describe('bad calls', () => {
  it.each([
    ['more copies than buckets', ['append', '--stream', 's', '--buckets', '2', '--copies', '3'], 2],
    ['a name that is too long', ['append', '--stream', 'x'.repeat(513)], 2],
    ['an empty name', ['append', '--stream', ''], 2],
    ['a bad star', ['append', '--stream', 's', '--star', 'No'], 2],
    ['a missing input', ['append', '--stream', 's', 'no-such-file'], 2],
  ])('%s', async (_, args, exitCode) => {
    const { code, stderr } = await run([...args, ...freshRoot(), '--json'], 'x\n');
    expect(JSON.parse(stderr)).toMatchObject({ error: { exitCode } });
    expect(code).toBe(exitCode);
  });

  it('a stream that does not exist', async () => {
    const root = freshRoot();
    await run(['append', '--stream', 's', ...root], 'x\n');
    const { code, stdout, stderr } = await run(['read', 't', ...root]);
    expect([code, stdout]).toEqual([3, '']);
    expect(stderr).toMatch(/^asterlog: STREAM_NOT_FOUND .*\n$/);
  });
});

describe('another set of buckets', () => {
  it('serves what comes next, while the old one serves what was there', async () => {
    const root = freshRoot();
    await run(['append', '--stream', 's', ...root], 'three\n');
    const more = await run(['append', '--stream', 's', '--buckets', '4', ...root], 'four\n');
    expect(more.code, more.stderr).toBe(0);
    expect((await run(['read', 's', '--buckets', '4', ...root])).stdout).toBe('three\nfour\n');
  });
});

describe('pipes', () => {
  it('broken by the reader end the command quietly', async () => {
    const root = freshRoot();
    const text = readFileSync(LICENSE, 'utf8').repeat(40);
    await run(['append', '--stream', 's', ...root], text);
    const reading = start(['read', 's', ...root]);
    await reading.printed('\n');
    reading.child.stdout?.destroy();
    expect(await reading.finished).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('bad inputs and outputs', () => {
  it('a missing input is found before anything is created or appended', async () => {
    const root = freshRoot();
    const done = await run(['append', '--stream', 's', '--json', ...root, LICENSE, '/nowhere/x']);
    expect(done.code).toBe(2);
    expect(JSON.parse(done.stderr)).toMatchObject({
      error: { code: 'INVALID_OPTION', sideEffects: 'none', details: { value: '/nowhere/x' } },
    });
    expect(existsSync(root[1]!)).toBe(false);
  });

  it('a file in place of the data directory is a bad option, not something to wait for', async () => {
    const file = join(temporaryFolder(), 'file');
    writeFileSync(file, 'text');
    const done = await run(['append', '--stream', 's', '--root', file, '--json'], 'line\n');
    expect(done.code).toBe(2);
    expect(JSON.parse(done.stderr)).toMatchObject({ error: { code: 'INVALID_OPTION' } });
  });

  it.runIf(existsSync('/dev/full'))(
    'a full output device ends with one line and exit code 1',
    async () => {
      const root = freshRoot();
      await run(['append', '--stream', 's', ...root, LICENSE]);
      const full = openSync('/dev/full', 'w');
      try {
        const { code, stderr } = await run(['read', 's', ...root], '', { stdout: full });
        expect({ code, stderr }).toMatchObject({
          code: 1,
          stderr: expect.stringMatching(
            /^asterlog: standard output cannot be written: ENOSPC.*\n$/,
          ) as string,
        });
      } finally {
        closeSync(full);
      }
    },
  );
});
