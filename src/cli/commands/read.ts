import { Option, type Command } from 'commander';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { instant, integerIn } from '../parse.ts';
import { OUTPUT_FORMATS, printRecords, type OutputFormat } from '../records/print.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

export interface StartOptions {
  readonly from?: number;
  readonly tailOffset?: number;
  readonly timestamp?: number;
}

interface ReadCommandOptions extends StoreOptions, CommonOptions, StartOptions {
  readonly limit?: number;
  readonly format: OutputFormat;
}

const HELP = `
Reads beside a running writer or after a crash: no lease is taken and nothing is written. Every
record is verified against its checksum. Without a start position, reading begins at the first record
that is not trimmed.

Examples:
  $ asterlog read orders --limit 10
  $ asterlog read orders --timestamp 2026-01-31T12:00:00Z --format ndjson
  $ asterlog read log > log.txt
`;

export function addStartOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--from <seqNum>', 'start at this sequence number')
        .argParser(position)
        .conflicts(['tailOffset', 'timestamp']),
    )
    .addOption(
      new Option('--tail-offset <records>', 'start so many records before the tail')
        .argParser(position)
        .conflicts(['from', 'timestamp']),
    )
    .addOption(
      new Option('--timestamp <time>', 'start at the first record at or after this time')
        .argParser(instant)
        .conflicts(['from', 'tailOffset']),
    );
}

const position = integerIn(0, Number.MAX_SAFE_INTEGER);

export function addFormatOption(command: Command): Command {
  return command.addOption(
    new Option('--format <format>', 'bodies as lines, or records as JSON (what --json gives)')
      .choices(OUTPUT_FORMATS)
      .default('lines'),
  );
}

export function formatOf(options: CommonOptions & { format: OutputFormat }): OutputFormat {
  return options.json === true ? 'ndjson' : options.format;
}

export function registerRead(program: Command, context: Context): void {
  const command = program
    .command('read')
    .summary('print records of a stream')
    .description('Prints the records of a stream up to its tail.')
    .argument('<stream>', 'name of the stream')
    .addOption(new Option('--limit <records>', 'stop after so many records').argParser(position));
  addFormatOption(addStartOptions(command));
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((name: string, options: ReadCommandOptions) => read(context, name, options));
}

async function read(context: Context, name: string, options: ReadCommandOptions): Promise<void> {
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  await withReader(context, options, async (reader) => {
    const { limit } = options;
    const records = reader.read(name, {
      ...startOf(options),
      ...(limit === undefined ? {} : { limit }),
      signal,
    });
    for await (const batch of records.batches()) {
      await printRecords(batch, formatOf(options), output);
      if (signal.aborted) break;
    }
  });
}

/** At most one of the three; commander refuses more. */
export function startOf({ from, tailOffset, timestamp }: StartOptions): StartOptions {
  if (from !== undefined) return { from };
  if (tailOffset !== undefined) return { tailOffset };
  return timestamp === undefined ? {} : { timestamp };
}
