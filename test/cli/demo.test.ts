import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { documentOf, run, start, temporaryFolder } from './support.ts';

describe('demo', () => {
  it('prints exactly one object with --json', async () => {
    const finished = await run(['demo', '--json', '--seconds', '1.5']);
    expect(finished.stderr).toBe('');
    const figures = documentOf(finished);
    expect(figures).toMatchObject({ ok: true, lost: 0, duplicated: 0, outOfOrder: 0, torn: 0 });
    for (const name of ['records', 'mbPerSecond', 'ackP50Millis', 'ackP99Millis', 'cut']) {
      expect(figures[name], name).toBeGreaterThan(0);
    }
    const { fence, readBack } = figures as Record<string, Record<string, number>>;
    expect(fence!['rounds']).toBeGreaterThan(0);
    expect(fence!['millis']).toBeGreaterThan(0);
    expect(readBack!['records']).toBeGreaterThanOrEqual(figures['records'] as number);
    expect(existsSync(figures['root'] as string)).toBe(false);
  });

  it('draws the fence and a table as plain text', async () => {
    const folder = temporaryFolder();
    const text = join(folder, 'text.txt');
    writeFileSync(text, 'one line\nanother line\n');
    const root = join(folder, 'data');
    const finished = await run(['demo', '--seconds', '1', '--root', root, text]);
    expect(finished.code, finished.stderr).toBe(0);
    expect(finished.stderr).toMatch(/SIGKILL after/);
    expect(finished.stderr).toMatch(/fence of epoch 0: cut at slot \d+/);
    expect(finished.stderr).toContain('X dead: the cut');
    expect(finished.stdout).toMatch(/\n {2}lost +0\n {2}duplicated +0\n {2}out of order +0\n/);
    expect(finished.stdout + finished.stderr).not.toContain('\u001b');
    // The data stays where the caller wanted it, and another demo can follow.
    expect((await run(['check', '--root', root])).code).toBe(0);
    expect((await run(['demo', '--seconds', '1', '--root', root])).code).toBe(0);
  });

  it('shows a takeover by another process with --takeover', async () => {
    const finished = await run(['demo', '--takeover', '--json', '--seconds', '2']);
    expect(finished.stderr).toBe('');
    const figures = documentOf(finished);
    expect(figures).toMatchObject({
      ok: true,
      lost: 0,
      reused: 0,
      producerErrors: 0,
      staleCheckTails: 0,
    });
    const measured = [
      'detectionMillis',
      'fenceMillis',
      'settleMillis',
      'openMillis',
      'roundTripsAfterDetection',
      'longestStallMillis',
      'acknowledged',
    ];
    for (const name of measured) expect(figures[name], name).toBeGreaterThan(0);
    expect(figures['roundTripsAfterDetection']).toBeLessThanOrEqual(20);
    expect(existsSync(figures['root'] as string)).toBe(false);
  });

  it('ends its writers when it is stopped', async () => {
    const demo = start(['demo', '--seconds', '60']);
    demo.child.stderr?.once('data', () => setTimeout(() => demo.child.kill('SIGTERM'), 500));
    expect((await demo.finished).code).toBe(143);
  });

  it('refuses a text that it cannot read', async () => {
    const { code, stderr } = await run(['demo', '/nonexistent/text']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^asterlog: INVALID_OPTION .*\n$/);
  });
});
