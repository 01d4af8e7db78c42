import { Option, type Command } from 'commander';
import type { FenceReport } from '../../engine/operator.ts';
import { requireRoot } from '../components.ts';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { FenceView } from '../demo/fence-view.ts';
import { formatMillis } from '../numbers.ts';
import { duration, integerIn } from '../parse.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

interface FenceOptions extends StoreOptions, CommonOptions {
  readonly timeout: number;
}

const HELP = `
The walk completes every flight of which a copy exists, writes poison into the first free slot until no
writer can fill it any more, and publishes that slot as the cut. Nothing acknowledged is lost. A live
writer of the epoch loses its next slot and goes on in a new epoch.
`;

export function registerFence(program: Command, context: Context): void {
  const command = program
    .command('fence')
    .argument('<star>', 'the chain')
    .argument('<epoch>', 'the epoch to end', integerIn(0, Number.MAX_SAFE_INTEGER))
    .summary('end an epoch and settle it')
    .description('Ends an epoch of a star at its cut, and enters what lies below it in rows.')
    .addOption(
      new Option('--timeout <duration>', 'longest wait for buckets that hold the deciding vote')
        .argParser(duration)
        .default(60_000, '60s'),
    );
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((star: string, epoch: number, options: FenceOptions) =>
      fence(context, { star, epoch }, options),
    );
}

async function fence(
  context: Context,
  target: { readonly star: string; readonly epoch: number },
  options: FenceOptions,
): Promise<void> {
  requireRoot(options);
  const output = outputOf(context, options);
  const view = new FenceView(output.err);
  const report = await context.door.fence(options, target, {
    signal: context.shutdown.signal,
    timeoutMillis: options.timeout,
    onFenceProgress: (progress) => view.show(progress),
  });
  output.result(report, () => reportLines(report));
}

export function reportLines(report: FenceReport): string[] {
  const { star, epoch, cut, rounds, gets, puts, repairs, millis, settledStreams } = report;
  const how = report.alreadyFenced
    ? 'it was fenced before'
    : `${rounds} rounds, ${gets} reads, ${puts} writes, ${repairs} repairs, ${formatMillis(millis)}`;
  return [
    `epoch ${epoch} of ${star}: cut at slot ${cut} (${how})`,
    report.settlement === 'settled'
      ? `settled: ${settledStreams} streams covered, tail ${report.swept ? 'swept' : 'not swept: a bucket does not answer'}`
      : 'not settled: a stream of it waits for an older epoch; fence that one first',
  ];
}
