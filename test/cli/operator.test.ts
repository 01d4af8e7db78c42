import { describe, expect, it } from 'vitest';
import { documentOf, freshRoot, run, start } from './support.ts';

/** A data directory whose writer was killed with one durable line that no row covers. */
async function killedWriter(): Promise<readonly string[]> {
  const root = freshRoot();
  const writer = start(['append', '--stream', 's', ...root]);
  writer.child.stdin?.write('kept\n');
  while ((await run(['read', 's', ...root])).stdout !== 'kept\n') {
    // The first line becomes durable within moments.
  }
  writer.child.kill('SIGKILL');
  await writer.finished;
  return root;
}

describe('fence', () => {
  it('ends the epoch of a dead writer, settles it, and answers the same cut again', async () => {
    const root = await killedWriter();
    const report = documentOf(await run(['fence', 'main', '0', '--json', ...root]));
    expect(report).toMatchObject({
      star: 'main',
      epoch: 0,
      cut: 1,
      alreadyFenced: false,
      settlement: 'settled',
      settledStreams: 1,
      swept: true,
    });
    const again = documentOf(await run(['fence', 'main', '0', '--json', ...root]));
    expect(again).toMatchObject({ cut: 1, alreadyFenced: true, settlement: 'settled' });
    expect((await run(['read', 's', ...root])).stdout).toBe('kept\n');
    expect((await run(['fence', 'main', '0', ...root])).stdout).toContain('cut at slot 1');
  });

  it('refuses an unknown chain, an unknown epoch and a malformed number', async () => {
    const root = await killedWriter();
    expect((await run(['fence', 'other', '0', ...root])).stderr).toContain('STAR_UNKNOWN');
    expect((await run(['fence', 'main', '7', ...root])).stderr).toContain('EPOCH_UNKNOWN');
    expect((await run(['fence', 'main', '-1', ...root])).code).toBe(2);
    expect((await run(['fence', 'main', 'x', ...root])).code).toBe(2);
  });
});

describe('explain', () => {
  it('tells what each bucket holds before and after a fence, and why', async () => {
    const root = await killedWriter();
    const open = documentOf(await run(['explain', 'main', '0', '0', '--json', ...root]));
    expect(open).toMatchObject({ verdict: 'committed', state: 'open', blockingSet: 2 });
    expect(open['cells']).toHaveLength(3);
    const free = documentOf(await run(['explain', 'main', '0', '1', '--json', ...root]));
    expect(free).toMatchObject({ verdict: 'poison' });
    await run(['fence', 'main', '0', ...root]);
    const dead = documentOf(await run(['explain', 'main', '0', '1', '--json', ...root]));
    expect(dead).toMatchObject({ verdict: 'dead', state: 'settled', cut: 1 });
    const cells = dead['cells'] as { holds: string; poison?: { byStar: string } }[];
    expect(cells.filter(({ holds }) => holds === 'poison').length).toBeGreaterThanOrEqual(2);
    expect(cells.find(({ holds }) => holds === 'poison')?.poison?.byStar).toBe('operator');
    const text = await run(['explain', 'main', '0', '1', ...root]);
    expect(text.stdout).toContain('slot 1 of epoch 0 of main: dead');
    expect(text.stdout).toContain('the published cut');
  });

  it('refuses what does not exist', async () => {
    const root = await killedWriter();
    expect((await run(['explain', 'main', '9', '0', ...root])).stderr).toContain('EPOCH_UNKNOWN');
    expect((await run(['explain', 'main', '0', '-1', ...root])).code).toBe(2);
  });
});
