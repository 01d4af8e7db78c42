import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as asterlog from 'asterlog';
import * as machines from 'asterlog/machines';
import * as testing from 'asterlog/testing';
import { describe, expect, it } from 'vitest';

const cli = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url));

describe('the built package', () => {
  it('loads by its own name, from dist', () => {
    expect(fileURLToPath(import.meta.resolve('asterlog'))).toMatch(/\/dist\/src\/index\.js$/);
    expect(new asterlog.AssertionError('cut moved').stack).toMatch(/AssertionError: cut moved/);
    expect(machines).toBeTypeOf('object');
    expect(testing).toBeTypeOf('object');
  });

  it('has an executable command that knows its version', () => {
    expect(statSync(cli).mode & 0o111).not.toBe(0);
    expect(execFileSync(cli, ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
