import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { pageSnippets, snippetPath, snippetText } from '../support/page-snippets.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const readme = await readFile(join(root, 'README.md'), 'utf8');

const snippets = pageSnippets(readme);

const printed: Record<string, string> = {
  'quick-start.ts': '0 one\n1 two\nnext: 2\n',
  'quick-start.mjs': '0 hello\n',
  's3-servers.ts': [
    'aws https://s3.eu-west-1.amazonaws.com',
    'express https://s3express-usw2-az1.us-west-2.amazonaws.com',
    'r2 https://0123456789abcdef.r2.cloudflarestorage.com',
    'gcs https://storage.googleapis.com',
    'minio https://minio.example:9000',
    'rgw https://rgw-a.example\n',
  ].join('\n'),
  'two-engines.ts': '0\n',
  'errors.ts': 'done\n',
};

test('every snippet of the README has a file that is run, and no block is unmarked', () => {
  expect([...snippets.keys()].sort()).toEqual(Object.keys(printed).sort());
  expect(readme.match(/```(ts|js)\n/g) ?? []).toHaveLength(snippets.size);
});

test.each(Object.keys(printed))('%s is what the README shows, and runs', async (file) => {
  const path = snippetPath(file);
  expect(snippets.get(file)).toBe(snippetText(file));
  const folder = await mkdtemp(join(tmpdir(), 'asterlog-readme-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const loader = file.endsWith('.ts') ? ['--import', import.meta.resolve('tsx')] : [];
  const { stdout } = await run(process.execPath, [...loader, path], { cwd: folder });
  expect(stdout).toBe(printed[file]);
});

test('the quick start is at most fifteen lines', () => {
  expect(snippets.get('quick-start.ts')!.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
});
