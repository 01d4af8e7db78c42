/** What `asterlog/testing` shows to users: the page's example runs in plain Node, the exports are chosen. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as testing from 'asterlog/testing';
import { expect, test } from 'vitest';
import { pageSnippets, snippetPath, snippetText } from '../support/page-snippets.ts';

const run = promisify(execFile);
const page = readFileSync(fileURLToPath(new URL('../../docs/testing.md', import.meta.url)), 'utf8');

test('every snippet of docs/testing.md has a file that is run, and no block is unmarked', () => {
  expect([...pageSnippets(page).keys()]).toEqual(['testing.ts']);
  expect(page.match(/```(ts|js)\n/g)).toHaveLength(1);
});

test('the example is what the page shows, and passes under node --test', async () => {
  expect(pageSnippets(page).get('testing.ts')).toBe(snippetText('testing.ts'));
  const args = ['--import', import.meta.resolve('tsx'), '--test', snippetPath('testing.ts')];
  // A test runner within a test runner reports to the outer one, unless it does not know of it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = await run(
    process.execPath,
    [...args.slice(0, 2), '--test-reporter=tap', ...args.slice(2)],
    { env },
  );
  expect(stdout).toMatch(/^# pass 2$/m);
  expect(stdout).toMatch(/^# fail 0$/m);
});

test('the names that users see are chosen, each told on the page', () => {
  const names = Object.keys(testing).sort();
  expect(names).toEqual([
    'BucketServer',
    'CALM_BUCKETS',
    'CALM_METASTORE',
    'FaultScript',
    'FaultyBucketStore',
    'FaultyMetastore',
    'Gate',
    'History',
    'MetaServer',
    'ROUGH_BUCKETS',
    'ROUGH_METASTORE',
    'Scheduler',
    'SimulatedPeers',
    'SimulatedProcess',
    'SimulationFailure',
    'VirtualClock',
    'World',
    'simulate',
  ]);
  for (const name of names) expect(page).toContain(`\`${name}\``);
});
