import type { Command } from 'commander';
import type { ReadOnlyEngine } from '../../engine/api.ts';
import { EngineError } from '../../lib/errors.ts';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { table, type Paint } from '../drawing.ts';
import { EXIT_CODES, exitCodeOf } from '../exit-codes.ts';
import { formatBytes, formatCount } from '../numbers.ts';
import type { Output } from '../output.ts';
import { errorDocument, errorLine } from '../output.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';
import { LiveBlock } from '../terminal.ts';
import { StreamCheck, type StreamReport } from './stream-check.ts';
import { printableName } from './streams.ts';

type CheckOptions = StoreOptions & CommonOptions;

const HELP = `
Reads every record that a fence would keep, verifies its checksum, and checks that sequence numbers have
no gaps and timestamps never decrease. Exit code ${EXIT_CODES.failed.code} tells that something is wrong. Where buckets do not
answer or refuse, it ends at the first stream that they keep from being read: then not all was looked at, and
the exit code is that of the refusal.
`;

export function registerCheck(program: Command, context: Context): void {
  const command = program
    .command('check')
    .summary('read everything back and verify it')
    .description('Reads streams back and verifies checksums and contiguity.')
    .argument('[streams...]', 'only these; default: all');
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((names: string[], options: CheckOptions) => check(context, names, options));
}

async function check(context: Context, names: string[], options: CheckOptions): Promise<void> {
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  const reports: StreamReport[] = [];
  let isComplete = true;
  await withReader(context, options, async (reader) => {
    const progress = new LiveBlock(output.err);
    const chosen = names.length === 0 ? allNames(reader, signal) : names;
    for await (const name of chosen) {
      const one = await checkStream(reader, name, signal, progress);
      reports.push(one);
      // Every other stream would wait as long for the same buckets.
      isComplete = !isOutOfReach(one.failure);
      if (signal.aborted || !isComplete) break;
    }
    progress.end();
  });
  // A run that was stopped has not seen everything, so it must not say that all is well.
  if (signal.aborted) return;
  report(output, reports, isComplete);
  context.setExit(exitCodeOfReports(reports));
}

/** Buckets that cannot be asked say nothing of the data. */
function isOutOfReach(failure: unknown): boolean {
  if (!EngineError.is(failure)) return false;
  return failure.code === 'BUCKET_REFUSED' || failure.code === 'BUCKET_UNAVAILABLE';
}

function exitCodeOfReports(reports: readonly StreamReport[]): number {
  const failures = reports.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
  const isDamaged = reports.some(({ problems }) => problems > 0);
  if (isDamaged || !failures.every(isOutOfReach)) return EXIT_CODES.failed.code;
  return failures.length === 0 ? EXIT_CODES.ok.code : exitCodeOf(failures[0]);
}

async function* allNames(reader: ReadOnlyEngine, signal: AbortSignal): AsyncGenerator<string> {
  let startAfter: string | undefined;
  for (;;) {
    const page = await reader.listStreams({
      ...(startAfter === undefined ? {} : { startAfter }),
      signal,
    });
    for (const { name } of page.streams) yield name;
    startAfter = page.streams.at(-1)?.name;
    if (!page.more || startAfter === undefined) return;
  }
}

async function checkStream(
  reader: ReadOnlyEngine,
  name: string,
  signal: AbortSignal,
  progress: LiveBlock,
): Promise<StreamReport> {
  const checked = new StreamCheck(name);
  try {
    for await (const batch of reader.read(name, { signal }).batches()) {
      checked.add(batch);
      progress.update(() => [`${printableName(name)}  ${formatCount(checked.records)} records`]);
    }
  } catch (error) {
    if (signal.aborted) return checked.report();
    return checked.report(error);
  }
  return checked.report();
}

function report(output: Output, reports: readonly StreamReport[], isComplete: boolean): void {
  const total = (read: (one: StreamReport) => number): number =>
    reports.reduce((sum, one) => sum + read(one), 0);
  const failures = reports.filter(({ failure }) => failure !== undefined).length;
  const problems = total((one) => one.problems) + failures;
  output.result(
    {
      ok: problems === 0,
      complete: isComplete,
      records: total((one) => one.records),
      bytes: total((one) => one.bytes),
      problems,
      streams: reports.map(({ failure, ...rest }) => ({
        ...rest,
        ...(failure === undefined ? {} : errorDocument(failure)),
      })),
    },
    () => [
      ...reportTable(reports, output.out.paint),
      ...reports.flatMap(({ name, examples, failure }) => [
        ...examples.map((example) => `${printableName(name)}: ${example}`),
        ...(failure === undefined
          ? []
          : [`${printableName(name)}: ${errorLine(failure, output.out)}`]),
      ]),
      problems === 0
        ? output.out.paint.good(`all is well: ${formatCount(total((one) => one.records))} records`)
        : output.out.paint.bad(`problems: ${formatCount(problems)}`),
      ...(isComplete ? [] : ['not all was looked at: buckets do not answer']),
    ],
  );
}

function reportTable(reports: readonly StreamReport[], paint: Paint): string[] {
  return table(
    [
      { title: 'STREAM' },
      { title: 'RECORDS', align: 'right' },
      { title: 'BYTES', align: 'right' },
      { title: 'FIRST', align: 'right' },
      { title: 'TAIL', align: 'right' },
      { title: 'PROBLEMS', align: 'right' },
    ],
    reports.map((one) => [
      printableName(one.name),
      formatCount(one.records),
      formatBytes(one.bytes),
      one.first?.toString() ?? '-',
      one.tail?.toString() ?? '-',
      formatCount(one.problems + (one.failure === undefined ? 0 : 1)),
    ]),
    paint,
  );
}
