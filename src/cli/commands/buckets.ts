import { Option, type Command } from 'commander';
import { checkBuckets, initBuckets } from '../../engine/buckets.ts';
import { cleanDemos } from '../../engine/demo-cleanup.ts';
import { EngineError } from '../../lib/errors.ts';
import {
  cleanDocument,
  cleanFailuresOf,
  cleanLines,
  outcomeText,
} from '../buckets/clean-report.ts';
import {
  bucketsDocument,
  bucketsLines,
  failuresOf,
  initDocument,
  initLines,
} from '../buckets/report.ts';
import { componentsOf, s3ComponentsOf } from '../components.ts';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { exitCodeOf } from '../exit-codes.ts';
import { formatCount } from '../numbers.ts';
import { duration } from '../parse.ts';
import { addPlaceOptions, type PlaceOptions } from '../store.ts';
import { LiveBlock } from '../terminal.ts';

interface BucketsOptions extends PlaceOptions, CommonOptions {
  readonly timeout: number;
}

interface InitOptions extends BucketsOptions {
  readonly dryRun?: boolean;
}

interface CleanOptions extends InitOptions {
  readonly idle: number;
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

const CLEAN_HELP = `
A demo on S3 removes its objects at its end, unless it is killed. This looks under the prefixes of the buckets for
folders demo-<twelve hexadecimal digits>/ and removes those that hold the mark of their demo, if the process of the
demo has ended and nothing was written there lately. Of a demo on another machine nobody here can tell whether it
runs: its objects are kept for a day. Nothing else is touched; what is kept is listed with the reason. Objects of
"asterlog demo --keep" bear no mark.
`;

export function registerBuckets(program: Command, context: Context): void {
  const buckets = program
    .command('buckets')
    .summary('make buckets, check whether they will do, tidy up after demos')
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
  const clean = buckets
    .command('clean')
    .summary('remove what demos left on S3')
    .description('Removes objects of demos that were killed, and nothing else.')
    .option('--dry-run', 'only say what would be removed')
    .addOption(
      new Option('--idle <duration>', 'keep what was written to within this time')
        .argParser(duration)
        .default(120_000, '2m'),
    );
  addBucketsOptions(clean, 600_000, '10m')
    .addHelpText('after', CLEAN_HELP)
    .action((options: CleanOptions) => cleanAll(context, options));
}

function addBucketsOptions(command: Command, timeoutMillis = 60_000, text = '60s'): Command {
  return addCommonOptions(addPlaceOptions(command)).addOption(
    new Option('--timeout <duration>', 'longest wait for all answers')
      .argParser(duration)
      .default(timeoutMillis, text),
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

async function cleanAll(context: Context, options: CleanOptions): Promise<void> {
  const output = outputOf(context, options);
  const components = s3ComponentsOf(options);
  if (components === undefined) {
    throw new EngineError('INVALID_OPTION', 'demos leave objects in buckets on S3 only', {
      details: { option: 's3' },
    });
  }
  const dryRun = options.dryRun === true;
  const progress = new LiveBlock(output.err);
  const buckets = await cleanDemos(components, {
    dryRun,
    idleMillis: options.idle,
    signal: context.shutdown.signal,
    timeoutMillis: options.timeout,
    onProgress: (bucket, prefix, removed) => {
      if (output.json) return;
      progress.update(() => [`${bucket} ${prefix}: ${formatCount(removed)} objects removed`]);
    },
    onDemo: (bucket, demo) => {
      if (!output.json) progress.end();
      output.note(`${bucket} ${demo.prefix}: ${outcomeText(demo)}`);
    },
  });
  output.result(cleanDocument(buckets, dryRun), () => cleanLines(buckets, output.out.paint));
  exitWith(context, cleanFailuresOf(buckets));
}

/** What needs somebody's help counts before what may pass. */
function exitWith(context: Context, errors: readonly EngineError[]): void {
  const first = errors.find(({ retryable }) => !retryable) ?? errors[0];
  if (first !== undefined) context.setExit(exitCodeOf(first));
}
