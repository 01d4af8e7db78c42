import { describe, expect, it } from 'vitest';
import { documentOf, freshRoot, run } from './support.ts';

describe('append with conditions', () => {
  it('takes the number that the first record is to get, and goes on from there', async () => {
    const root = freshRoot();
    const append = ['append', '--stream', 's', '--batch', '2', '--json', ...root];
    const first = await run([...append, '--match-seq-num', '0'], 'a\nb\nc\n');
    expect(documentOf(first)).toMatchObject({ records: 3, batches: 2 });
    const again = await run([...append, '--match-seq-num', '0'], 'a\n');
    expect(again.code).toBe(3);
    expect(JSON.parse(again.stderr.trim().split('\n').at(-1)!)).toMatchObject({
      error: { code: 'SEQ_NUM_MISMATCH', details: { expected: 3, given: 0 }, exitCode: 3 },
    });
    expect((await run([...append, '--match-seq-num', '-1'])).code).toBe(2);
    expect((await run(['read', 's', ...root])).stdout).toBe('a\nb\nc\n');
  });

  it('takes the fencing token that set-token installed, and no other', async () => {
    const root = freshRoot();
    const set = await run(['set-token', 's', 'me', '--json', ...root]);
    expect(documentOf(set)).toEqual({ stream: 's', fencingToken: 'me', seqNum: 0 });
    const append = ['append', '--stream', 's', ...root];
    const other = await run([...append, '--fencing-token', 'you'], 'x\n');
    expect([other.code, other.stderr]).toEqual([3, expect.stringContaining('fencingToken=me')]);
    expect((await run([...append, '--fencing-token', 'me'], 'x\n')).code).toBe(0);
    const long = await run(['set-token', 's', 'x'.repeat(37), ...root]);
    expect([long.code, long.stderr]).toEqual([2, expect.stringContaining('max=36')]);
    const cleared = await run(['set-token', 's', '', '--fencing-token', 'me', ...root]);
    expect(cleared.stdout).toContain('cleared from 2 on');
    expect((await run([...append, '--fencing-token', ''], 'y\n')).code).toBe(0);
  });
});

describe('release', () => {
  it('answers what there is to release, and refuses what does not exist', async () => {
    const root = freshRoot();
    await run(['append', '--stream', 's', ...root], 'x\n');
    expect(documentOf(await run(['release', 's', '--json', ...root]))).toMatchObject({
      name: 's',
      outcome: 'already',
      tail: 1,
    });
    const none = await run(['release', 'none', ...root]);
    expect([none.code, none.stderr]).toEqual([3, expect.stringContaining('STREAM_NOT_FOUND')]);
    expect(documentOf(await run(['status', '--json', ...root]))).toMatchObject({ limbo: [] });
  });
});
