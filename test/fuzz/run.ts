/**
 * Fuzzes every decoder: `npm run fuzz -- [--minutes 1] [--seed N] [--only TEXT] [--case N] [--json]`.
 * Exits with 1 when it found something, with 2 when an option is wrong. The work is done in a thread,
 * so that a decoder that never returns is found, too.
 */
import { randomInt } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { workerFile } from '../../src/lib/worker-file.ts';
import type { Finding } from './cases.ts';
import { titleOf } from './decoder.ts';
import { DECODERS } from './decoders.ts';
import { runOptions, USAGE, type RunOptions } from './options.ts';

/** No case may take so long. */
const HANG_MILLIS = 20_000;

/** Undefined for a wrong option; then the reason is printed. */
function optionsOrUsage(): RunOptions | undefined {
  try {
    return runOptions(process.argv.slice(2), DECODERS.map(titleOf));
  } catch (error) {
    console.error(`${(error as Error).message.split('\n')[0] ?? ''}\n${USAGE}`);
    return undefined;
  }
}

function main(options: RunOptions): void {
  /** Of the thread: cases done, then decoder and number of the one under way. */
  const progress = new Int32Array(new SharedArrayBuffer(12));
  const seed = options.seed ?? randomInt(2 ** 24);
  const { filename, execArgv } = workerFile('fuzz.worker', import.meta.url);
  const worker = new Worker(filename, {
    execArgv,
    workerData: {
      seed,
      only: options.only,
      number: options.case,
      millis: options.minutes * 60_000,
      progress,
    },
  });

  const findings: Finding[] = [];
  let done = 0;
  let lastSeenAt = Date.now();
  const watch = setInterval(() => {
    if (Atomics.load(progress, 0) !== done) {
      done = Atomics.load(progress, 0);
      lastSeenAt = Date.now();
    } else if (Date.now() - lastSeenAt > HANG_MILLIS) {
      const decoder = titleOf(DECODERS[Atomics.load(progress, 1)]!);
      const number = Atomics.load(progress, 2);
      findings.push({ decoder, seed, case: number, problem: 'does not return', input: '' });
      void worker.terminate();
    }
  }, 1_000);

  worker.on('message', (finding: Finding) => {
    findings.push(finding);
    if (options.json) return;
    const { decoder, case: number, problem, input } = finding;
    console.log(`${decoder}: ${problem}\n  input: ${input}`);
    console.log(`  npm run fuzz -- --seed ${seed} --only '${decoder}' --case ${number}`);
  });
  worker.on('error', (error) => {
    throw error;
  });
  worker.on('exit', () => {
    clearInterval(watch);
    const cases = Atomics.load(progress, 0);
    if (options.json)
      console.log(JSON.stringify({ seed, decoders: DECODERS.length, cases, findings }));
    else
      console.log(
        `seed ${seed}: ${DECODERS.length} decoders, ${cases} cases, ${findings.length} findings`,
      );
    process.exitCode = findings.length === 0 && cases > 0 ? 0 : 1;
  });
}

const options = optionsOrUsage();
if (options === undefined) process.exitCode = 2;
else main(options);
