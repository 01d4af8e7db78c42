import { Option, type Command } from 'commander';
import { checkBuckets, initBuckets } from '../../engine/buckets.ts';
import type { EngineError } from '../../lib/errors.ts';
import {
  bucketsDocument,
  bucketsLines,
  failuresOf,
  initDocument,
  initLines,
} from '../buckets/report.ts';
import { componentsOf } from '../components.ts';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { exitCodeOf } from '../exit-codes.ts';
import { duration } from '../parse.ts';
import { addPlaceOptions, type PlaceOptions } from '../store.ts';

interface BucketsOptions extends PlaceOptions, CommonOptions {
  readonly timeout: number;
}

interface InitOptions extends BucketsOptions {
  readonly dryRun?: boolean;
}

const INIT_HELP = `
A new bucket keeps no versions and gets no lifecycle rules; nothing is written into it. The identities of a
set of buckets are written by the first engine that opens them. Buckets that are there stay as they are;
"asterlog buckets check" says whether they will do. A missing bucket that the metastore has in a set is not
created anew, since engines would refuse it: configure one under another name.
`;

const CHECK_HELP = `
Asks of each bucket whether it answers, in which region, whether the clocks agree; whether it has versions or
a lifecycle rule that removes objects; whether it may be written, read, listed and emptied; whether of racing
creations exactly one wins; and whether it shows its identity. Writes a few objects under probe/ and removes
them. Every row that fails comes with what to do.
`;

export function registerBuckets(program: Command, context: Context): void {
  const buckets = program
    .command('buckets')
    .summary('make buckets, and check whether they will do')
    .description('Looks after the buckets that engines store in.');
  const init = buckets
    .command('init')
    .summary('create the buckets that are missing')
    .description('Creates the buckets that are missing, and changes no other.')
    .option('--dry-run', 'only say which would be created');
  addBucketsOptions(init)
    .addHelpText('after', INIT_HELP)
    .action((options: InitOptions) => initialise(context, options));
  const check = buckets
    .command('check')
    .summary('ask each bucket for all that an engine needs of it')
    .description('Asks each bucket for all that an engine needs of it, and says what to do.');
  addBucketsOptions(check)
    .addHelpText('after', CHECK_HELP)
    .action((options: BucketsOptions) => checkAll(context, options));
}

function addBucketsOptions(command: Command): Command {
  return addCommonOptions(addPlaceOptions(command)).addOption(
    new Option('--timeout <duration>', 'longest wait for all answers')
      .argParser(duration)
      .default(60_000, '60s'),
  );
}

async function initialise(context: Context, options: InitOptions): Promise<void> {
  const output = outputOf(context, options);
  const dryRun = options.dryRun === true;
  const buckets = await initBuckets(componentsOf(options), {
    dryRun,
    signal: context.shutdown.signal,
    timeoutMillis: options.timeout,
    onBucket: ({ name, outcome }) => output.note(`${name}: ${outcome}`),
  });
  output.result(initDocument(buckets, dryRun), () => initLines(buckets, output.out.paint));
  exitWith(
    context,
    buckets.flatMap(({ error }) => (error === undefined ? [] : [error])),
  );
}

async function checkAll(context: Context, options: BucketsOptions): Promise<void> {
  const output = outputOf(context, options);
  const reports = await checkBuckets(componentsOf(options), {
    signal: context.shutdown.signal,
    timeoutMillis: options.timeout,
    onCheck: (bucket, { check, verdict }) => output.note(`${bucket} ${check}: ${verdict}`),
  });
  // A run that was stopped has not seen everything.
  if (context.shutdown.signal.aborted) return;
  output.result(bucketsDocument(reports), () => bucketsLines(reports, output.out.paint));
  exitWith(context, failuresOf(reports));
}

/** What needs somebody's help counts before what may pass. */
function exitWith(context: Context, errors: readonly EngineError[]): void {
  const first = errors.find(({ retryable }) => !retryable) ?? errors[0];
  if (first !== undefined) context.setExit(exitCodeOf(first));
}
