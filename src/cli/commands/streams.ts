import { Option, type Command } from 'commander';
import type { StreamInfo } from '../../engine/api.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { table } from '../drawing.ts';
import { formatInstant } from '../numbers.ts';
import { integerIn } from '../parse.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

interface StreamsOptions extends StoreOptions, CommonOptions {
  readonly prefix?: string;
  readonly startAfter?: string;
  readonly limit: number;
}

export function registerStreams(program: Command, context: Context): void {
  const command = program
    .command('streams')
    .summary('list streams')
    .description('Lists the streams of the data directory in the order of their names.')
    .option('--prefix <text>', 'only names that begin so')
    .option('--start-after <name>', 'only names after this one, to page through many')
    .addOption(
      new Option('--limit <streams>', 'at most so many')
        .argParser(integerIn(1, LIMITS.listPage))
        .default(LIMITS.listPage),
    );
  addCommonOptions(addStoreOptions(command)).action((options: StreamsOptions) =>
    listStreams(context, options),
  );
}

async function listStreams(context: Context, options: StreamsOptions): Promise<void> {
  const output = outputOf(context, options);
  const { prefix, startAfter, limit } = options;
  const page = await withReader(context, options, (reader) =>
    reader.listStreams({
      ...(prefix === undefined ? {} : { prefix }),
      ...(startAfter === undefined ? {} : { startAfter }),
      limit,
      signal: context.shutdown.signal,
    }),
  );
  output.result(page, () => {
    if (page.streams.length === 0) return ['no streams'];
    const lines = streamTable(page.streams, output.out.paint);
    return page.more ? [...lines, `more follow: --start-after ${lastName(page.streams)}`] : lines;
  });
}

function streamTable(streams: readonly StreamInfo[], paint: Parameters<typeof table>[2]): string[] {
  return table(
    [
      { title: 'NAME' },
      { title: 'MODE' },
      { title: 'CLASS' },
      { title: 'CREATED' },
      { title: 'ID' },
    ],
    streams.map(({ name, id, createdAtMillis, config }) => [
      printableName(name),
      config.mode,
      config.storageClass,
      formatInstant(createdAtMillis),
      id,
    ]),
    paint,
  );
}

/** Names are any UTF-8; control characters must not reach the terminal. */
export function printableName(name: string): string {
  return /[\u0000-\u001f\u007f-\u009f]/.test(name) ? JSON.stringify(name) : name;
}

const lastName = (streams: readonly StreamInfo[]): string => JSON.stringify(streams.at(-1)!.name);
