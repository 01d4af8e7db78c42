import { Option, type Command } from 'commander';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReadOptions, ReadOnlyEngine } from '../../engine/api.ts';
import { EngineError } from '../../lib/errors.ts';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { duration } from '../parse.ts';
import { printRecords, type OutputFormat } from '../records/print.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';
import { addFormatOption, addStartOptions, formatOf, startOf, type StartOptions } from './read.ts';

interface TailOptions extends StoreOptions, CommonOptions, StartOptions {
  readonly format: OutputFormat;
  readonly poll: number;
}

const HELP = `
Follows a stream while another process appends to it, until it is interrupted. Begins with the last
ten records unless a start position is given. It does not mind restarts of the writer.

Example:
  $ asterlog tail log --format ndjson
`;
const DEFAULT_TAIL_OFFSET = 10;

export function registerTail(program: Command, context: Context): void {
  const command = program
    .command('tail')
    .summary('follow a stream')
    .description('Prints new records of a stream as they become durable.')
    .argument('<stream>', 'name of the stream')
    .addOption(
      new Option('--poll <duration>', 'pause between two looks at the tail')
        .argParser(duration)
        .default(200, '200ms'),
    );
  addFormatOption(addStartOptions(command));
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((name: string, options: TailOptions) => tail(context, name, options));
}

async function tail(context: Context, name: string, options: TailOptions): Promise<void> {
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  const start = startOf(options);
  let next: StartOptions =
    Object.keys(start).length === 0 ? { tailOffset: DEFAULT_TAIL_OFFSET } : start;
  await withReader(context, options, async (reader) => {
    while (!signal.aborted) {
      for await (const batch of batchesFrom(reader, name, { ...next, signal })) {
        const last = batch.at(-1);
        if (last !== undefined) next = { from: last.seqNum + 1 };
        await printRecords(batch, formatOf(options), output);
      }
      await sleep(Math.max(1, options.poll), undefined, { signal }).catch(() => undefined);
    }
  });
}

/** What there is from here on; nothing yet at or beyond the tail is no error for who follows it. */
async function* batchesFrom(reader: ReadOnlyEngine, name: string, options: ReadOptions) {
  try {
    yield* reader.read(name, options).batches();
  } catch (error) {
    const nothingYet = EngineError.is(error) && error.code === 'BEYOND_TAIL';
    if (!nothingYet && options.signal?.aborted !== true) throw error;
  }
}
