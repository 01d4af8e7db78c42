/**
 * Appends through the whole engine against bare loops that run in the same process, in turns, on the
 * same disk. What each row means: README.md beside this file.
 */
import { benchOptions } from './_harness.ts';
import { directoryRows } from './_append-directory.ts';
import { memoryRows } from './_append-memory.ts';
import type { Row } from './_rows.ts';

const { json, smoke } = benchOptions();
const only = process.env['BENCH_ONLY'];

const rows: Row[] = [];
if (only === undefined || only === 'memory') rows.push(...(await memoryRows(smoke)));
if (only === undefined || only === 'directory') rows.push(...(await directoryRows(smoke)));
if (json) console.log(JSON.stringify({ bench: 'append', rows }));
else {
  for (const { name, floor, engine, ratio, unit, ...details } of rows) {
    console.log(`${name}: ${engine} of ${floor} ${unit}, ratio ${ratio}`);
    const text = Object.entries(details).map(([key, value]) => `${key} ${value}`);
    console.log(`    ${text.join(', ')}`);
  }
}
