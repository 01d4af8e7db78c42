import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const cli = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url));

describe('the built package', () => {
  it.each(['asterlog', 'asterlog/machines', 'asterlog/testing'])('loads %s', async (name) => {
    await expect(import(/* @vite-ignore */ name)).resolves.toBeTypeOf('object');
  });

  it('has an executable command that knows its version', () => {
    expect(statSync(cli).mode & 0o111).not.toBe(0);
    expect(execFileSync(cli, ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
