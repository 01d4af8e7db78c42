/**
 * Runs clients against live engines and judges what they were told: `npm run linearize -- [--seeds N]
 * [--from S] [--clients N] [--operations N] [--seconds N] [--history FILE] [--check FILE]
 * [--break NAME] [--json]`. Exits with 1 when a history has no order or could not be decided, with 2
 * when an option is wrong.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { assertWritable, fileNameFor, readHistory, writeHistory } from './history-file.ts';
import { OptionError, parseOptions, type Options } from './options.ts';
import { HistoryError } from './parse-events.ts';
import { runReal, type RealRun } from './real.ts';
import { jsonOf, linesOf } from './report.ts';
import { simulate } from './simulated.ts';
import { Account, type JudgedHistory } from './verdicts.ts';

async function main(args: readonly string[]): Promise<void> {
  const options = parseOptions(args);
  if (options.history !== undefined) assertWritable(options.history);
  const account = new Account();
  const startedAt = performance.now();
  let real: RealRun | undefined;
  let simulated = { seeds: 0, millis: 0 };
  if (options.check !== undefined) {
    const { check: file } = options;
    account.judge({ label: file, events: readHistory(file), replay: replayOf(file) });
  } else {
    const seeds = await runSeeds(options, account);
    simulated = { seeds, millis: Math.round(performance.now() - startedAt) };
    if (options.seconds > 0) real = await runProcesses(options, account);
  }
  const figures = real && { seconds: real.seconds, kills: real.kills, pauses: real.pauses };
  const report = { account, simulated, real: figures, millis: performance.now() - startedAt };
  if (options.json) console.log(jsonOf(report));
  else for (const line of linesOf(report)) console.log(line);
  process.exitCode = account.isClean ? 0 : 1;
}

/** @returns how many seeds ran. */
async function runSeeds(options: Options, account: Account): Promise<number> {
  const { seeds, from, clients, operations } = options;
  for (let seed = from; seed < from + seeds; seed++) {
    const planted =
      options.break === undefined ? '' : ` --break ${JSON.stringify(options.break.name)}`;
    const replay =
      `npm run linearize -- --from ${seed} --seeds 1 --clients ${clients} ` +
      `--operations ${operations} --seconds 0${planted}`;
    const { mutate, stream: wrapStream } = options.break ?? {};
    try {
      const run = await simulate({ seed, replay, clients, operations, mutate, wrapStream });
      const isAlone = seeds === 1 && run.histories.length === 1 && options.seconds === 0;
      for (const { name, events } of run.histories) {
        judge({ label: `seed ${seed} ${name}`, events, replay }, options, account, isAlone);
      }
    } catch (error) {
      if (!(error instanceof SimulationFailure)) throw error;
      console.error(error.message);
      account.broke(`seed ${seed}`, replay, `${error.rule}: ${error.message.split('\n')[0] ?? ''}`);
    }
    if (options.break !== undefined && account.isRejecting) return seed + 1 - from;
  }
  return seeds;
}

async function runProcesses(options: Options, account: Account): Promise<RealRun | undefined> {
  const { seconds, clients } = options;
  const replay = `npm run linearize -- --seeds 0 --seconds ${seconds} --clients ${clients}`;
  try {
    const run = await runReal({ seconds, clients });
    for (const { name, events } of run.histories) {
      const label = `processes ${name}`;
      const violations = account.violations.length + account.unknown.length;
      judge({ label, events, replay }, options, account, false);
      // No seed makes it again: what was written down is kept.
      if (account.violations.length + account.unknown.length === violations) continue;
      const file = fileNameFor(join(tmpdir(), `asterlog-history-${process.pid}.jsonl`), label);
      writeHistory(file, events);
      console.error(`${label}: ${replayOf(file)}`);
    }
    return run;
  } catch (error) {
    account.broke('processes', replay, (error as Error).message);
    return undefined;
  }
}

function judge(
  history: JudgedHistory,
  { history: file }: Options,
  account: Account,
  isAlone: boolean,
): void {
  if (file !== undefined) {
    writeHistory(isAlone ? file : fileNameFor(file, history.label), history.events);
  }
  account.judge(history);
}

function replayOf(file: string): string {
  return `npm run linearize -- --check ${file}`;
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof OptionError || error instanceof HistoryError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
