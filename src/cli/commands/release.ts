import { Option, type Command } from 'commander';
import type { ReleaseReport } from '../../engine/operator.ts';
import { requireRoot } from '../components.ts';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { FenceView } from '../demo/fence-view.ts';
import { formatCount } from '../numbers.ts';
import { duration } from '../parse.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

interface ReleaseOptions extends StoreOptions, CommonOptions {
  readonly force?: boolean;
  readonly timeout: number;
}

const HELP = `
For a stream in limbo, or one whose star is gone and that nobody opens. The epoch of its leader is fenced
first, so that nothing more can be acknowledged in it; then everything below the cut is entered in rows,
and the stream is released in the leader's name: any star may open it.

Nothing acknowledged is given up. What is: batches that were not acknowledged yet (their producers get an
error or no answer), and the leadership of that star, which goes on with its other streams in a new epoch.
Without --force the star is watched first, for at most its session timeout: a sign of life ends the
command with STREAM_HELD.

If something below the cut cannot be read, nothing is released and the error says what is missing.
`;

export function registerRelease(program: Command, context: Context): void {
  const command = program
    .command('release')
    .argument('<stream>', 'its name')
    .summary('take a stream from a leader that does not give it back')
    .description('Fences the epoch of the leader of a stream, settles the stream and releases it.')
    .option('--force', 'also from a star that is alive')
    .addOption(
      new Option('--timeout <duration>', 'longest wait for buckets that hold the deciding vote')
        .argParser(duration)
        .default(60_000, '60s'),
    );
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((stream: string, options: ReleaseOptions) => release(context, stream, options));
}

async function release(context: Context, name: string, options: ReleaseOptions): Promise<void> {
  requireRoot(options);
  const output = outputOf(context, options);
  const view = new FenceView(output.err);
  const force = options.force === true ? 'fromLiving' : 'never';
  const report = await context.door.release(
    options,
    { name, force },
    {
      signal: context.shutdown.signal,
      timeoutMillis: options.timeout,
      onFenceProgress: (progress) => view.show(progress),
    },
  );
  output.result(report, () => releaseLines(report));
}

export function releaseLines(report: ReleaseReport): string[] {
  const { name, outcome, tail, from, givenUp, settlement } = report;
  if (outcome === 'nobody') return [`${name}: nobody ever led it, there is nothing to release`];
  if (outcome === 'already') return [`${name}: released already, at tail ${tail}`];
  const lines = [`${name}: released at tail ${tail}`];
  if (from !== undefined) {
    const { star, epoch, cut } = from;
    lines.push(
      `epoch ${epoch} of ${star} is fenced at slot ${cut}; the star goes on in a new epoch if it lives`,
    );
  }
  lines.push(
    givenUp.records === 0
      ? 'given up: the leadership; no unacknowledged record of the stream was found'
      : `given up: the leadership, and ${formatCount(givenUp.records)} records in ` +
          `${formatCount(givenUp.slots)} slots that were never acknowledged`,
  );
  if (settlement === 'gap') {
    lines.push('another stream of that epoch waits for an older one: fence that one first');
  }
  return lines;
}
