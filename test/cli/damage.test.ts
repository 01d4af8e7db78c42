import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { freshRoot, run } from './support.ts';

const TEXT = 'something that is easy to find\n';

/** Every object in every bucket that holds the text. */
function objectsWith(root: string): string[] {
  return readdirSync(root, { recursive: true })
    .map((name) => join(root, name.toString()))
    .filter((path) => path.includes('bucket') && statSync(path).isFile())
    .filter((path) => readFileSync(path).includes(TEXT.trim()));
}

describe('check', () => {
  it('does without one copy of three, and notices when none is good', async () => {
    const root = freshRoot();
    await run(['append', '--stream', 's', ...root], TEXT);
    const copies = objectsWith(root[1]!);
    expect(copies.length).toBeGreaterThanOrEqual(2);
    rmSync(copies[0]!);
    expect((await run(['check', ...root])).code).toBe(0);
    for (const copy of copies.slice(1)) {
      const bytes = readFileSync(copy);
      bytes[bytes.indexOf(TEXT.trim())]! ^= 1;
      rmSync(copy);
      writeFileSync(copy, bytes);
    }
    const { code, stdout } = await run(['check', '--json', ...root]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ ok: false, problems: 1, streams: [{ name: 's' }] });
    const read = await run(['read', 's', ...root]);
    expect([read.code, read.stdout]).toEqual([1, '']);
    expect(read.stderr).toMatch(/^asterlog: (CORRUPT_OBJECT|DATA_LOSS) .*\n$/);
  });
});
