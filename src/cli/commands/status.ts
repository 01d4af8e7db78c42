import type { Command } from 'commander';
import type { ChainStatus, EpochStatus } from '../../engine/api.ts';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { slotGrid, slotLegend, table, type GridOptions, type SlotMark } from '../drawing.ts';
import { formatCount } from '../numbers.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

type StatusOptions = StoreOptions & CommonOptions;

const HELP = `
An epoch is one term of writing: every start begins one. It ends when its successor fences it; the cut
is the first slot that can never be acknowledged any more, and everything below it is kept. The
checkpoint is how far an epoch's slots are entered in the rows of their streams.

States: open (being written, or not fenced yet), fenced (cut known), settled (everything below the cut is
in rows), retired (its objects are gone).
`;

export function registerStatus(program: Command, context: Context): void {
  const command = program
    .command('status')
    .summary('show chains, epochs, cursors and slots')
    .description('Shows the chain of a star: its epochs, their cursors, their slots as a grid.');
  addCommonOptions(addStoreOptions(command))
    .addHelpText('after', HELP)
    .action((options: StatusOptions) => status(context, options));
}

async function status(context: Context, options: StatusOptions): Promise<void> {
  const output = outputOf(context, options);
  const chain = await withReader(context, options, (reader) =>
    reader.status({ signal: context.shutdown.signal }),
  );
  const { charset, paint, width } = output.out;
  output.result(chain, () => chainLines(chain, { charset, paint, width: width(), maxRows: 3 }));
}

/** How many of the newest epochs are drawn; the table lists all of them. */
const DRAWN_EPOCHS = 4;

export function chainLines(chain: ChainStatus, options: GridOptions): string[] {
  const { paint } = options;
  if (chain.epochs.length === 0) return [`star ${chain.star}: no epochs yet`];
  const newest = [...chain.epochs].sort((a, b) => a.epoch - b.epoch).slice(-DRAWN_EPOCHS);
  const used = new Set<SlotMark>();
  const grids = newest.flatMap((epoch) => {
    const { first, marks } = epochMarks(epoch);
    for (const mark of marks) used.add(mark);
    return ['', `epoch ${epoch.epoch}, ${epoch.state}`, ...slotGrid(first, marks, options)];
  });
  return [
    `star ${chain.star}: ${formatCount(chain.epochs.length)} epochs`,
    '',
    ...epochTable(chain.epochs, paint),
    ...grids,
    '',
    slotLegend(used, options),
  ];
}

function epochTable(epochs: readonly EpochStatus[], paint: GridOptions['paint']): string[] {
  return table(
    [
      { title: 'EPOCH', align: 'right' },
      { title: 'STATE' },
      { title: 'BUCKETS', align: 'right' },
      { title: 'COPIES', align: 'right' },
      { title: 'WINDOW', align: 'right' },
      { title: 'CHECKPOINT', align: 'right' },
      { title: 'CUT', align: 'right' },
      { title: 'TAIL SWEPT' },
    ],
    epochs.map((one) => [
      one.epoch.toString(),
      one.state,
      one.buckets.toString(),
      one.copyQuorum.toString(),
      one.window.toString(),
      one.checkpoint.toString(),
      one.cut?.toString() ?? '-',
      one.tailSwept ? 'yes' : 'no',
    ]),
    paint,
  );
}

/** What the cursors say of each slot, up to the reach of the window. */
export function epochMarks(epoch: EpochStatus): { first: number; marks: SlotMark[] } {
  const { checkpoint, cut, window } = epoch;
  const end = cut === undefined ? checkpoint + window : cut + 1;
  const marks: SlotMark[] = [];
  for (let slot = 0; slot < end; slot++) {
    if (slot < checkpoint) marks.push('settled');
    else if (cut === undefined) marks.push('unknown');
    else marks.push(slot < cut ? 'committed' : 'dead');
  }
  return { first: 0, marks };
}
