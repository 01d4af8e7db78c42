import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { documentOf, freshRoot, run, start } from './support.ts';

/** An `append` that waits for more input; its first line is durable when this resolves. */
async function appending(root: readonly string[]) {
  const writer = start(['append', '--stream', 's', '--json', ...root]);
  writer.child.stdin?.write('first\n');
  await durable(root, 'first');
  return writer;
}

async function durable(root: readonly string[], line: string): Promise<void> {
  for (;;) {
    const { stdout } = await run(['read', 's', ...root]);
    if (stdout.split('\n').includes(line)) return;
    await sleep(100);
  }
}

describe('beside a running writer', () => {
  it('readers look without disturbing it', async () => {
    const root = freshRoot();
    const writer = await appending(root);
    expect((await run(['streams', ...root])).stdout).toContain('\ns ');
    expect((await run(['check', ...root])).stdout).toContain('all is well: 1 records');
    const status = documentOf(await run(['status', '--json', ...root]));
    expect(status).toMatchObject({ star: 'main', epochs: [{ epoch: 0, state: 'open' }] });
    writer.child.stdin?.end('second');
    expect(documentOf(await writer.finished)).toMatchObject({ records: 2 });
  });

  it('tail follows it, also across its end', async () => {
    const root = freshRoot();
    const writer = await appending(root);
    const tail = start(['tail', 's', '--poll', '50ms', ...root]);
    await tail.printed('first\n');
    writer.child.stdin?.write('second\n');
    await tail.printed('second\n');
    writer.child.stdin?.end();
    await writer.finished;
    await run(['append', '--stream', 's', ...root], 'third\n');
    await tail.printed('third\n');
    expect(tail.stdout()).toBe('first\nsecond\nthird\n');
    tail.child.kill('SIGINT');
    expect(await tail.finished).toMatchObject({ code: 130, stderr: '' });
  });

  it('a second writer is refused at once', async () => {
    const root = freshRoot();
    const writer = await appending(root);
    const startMillis = performance.now();
    const second = await run(['append', '--stream', 't', ...root], 'x\n');
    expect(second.code).toBe(4);
    expect(second.stderr).toMatch(/^asterlog: STAR_IN_USE .* \(retry later\)\n$/);
    expect(performance.now() - startMillis).toBeLessThan(5_000);
    writer.child.stdin?.end();
    expect((await writer.finished).code).toBe(0);
  });
});

describe('a writer that is stopped', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('by %s ends in an orderly way', async (signal, code) => {
    const root = freshRoot();
    const writer = await appending(root);
    writer.child.kill(signal);
    const ended = await writer.finished;
    expect(ended.code, ended.stderr).toBe(code);
    expect(JSON.parse(ended.stdout)).toMatchObject({ records: 1 });
    // A clean release leaves nothing to wait for.
    const next = documentOf(await run(['append', '--stream', 's', '--json', ...root], 'x\n'));
    expect(next).toMatchObject({ start: { seqNum: 1 } });
  });

  it('by SIGKILL is fenced by the next one', async () => {
    const root = freshRoot();
    const writer = await appending(root);
    writer.child.kill('SIGKILL');
    await writer.finished;
    expect((await run(['read', 's', ...root])).stdout).toBe('first\n');
    const next = documentOf(await run(['append', '--stream', 's', '--json', ...root], 'x\n'));
    expect(next).toMatchObject({ start: { seqNum: 1 } });
    const status = documentOf(await run(['status', '--json', ...root]));
    expect(status['epochs']).toMatchObject([{ epoch: 0, state: 'settled', cut: 1 }, { epoch: 1 }]);
    expect((await run(['check', ...root])).code).toBe(0);
  });
});
