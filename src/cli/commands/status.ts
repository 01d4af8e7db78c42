import type { Command } from 'commander';
import type { EpochStatus, LimboStatus, SlotView } from '../../engine/api.ts';
import { addCommonOptions, outputOf, withReader } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { slotGrid, slotLegend, table, type GridOptions, type SlotMark } from '../drawing.ts';
import { formatCount, formatInstant } from '../numbers.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

type StatusOptions = StoreOptions & CommonOptions;

const HELP = `
An epoch is one term of writing: every start begins one. It ends when its successor fences it; the cut
is the first slot that can never be acknowledged any more, and everything below it is kept. The
checkpoint is how far an epoch's slots are entered in the rows of their streams.

States: open (being written, or not fenced yet), fenced (cut known), settled (everything below the cut is
in rows), retired (its objects are gone).

A stream in limbo is one whose release failed; its star tries again every five seconds. See
"asterlog release --help" for what an operator can do about it.

Where too few buckets answer, epochs are shown without their slots, and the error says why.
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

/** An epoch with what its slots hold beyond the checkpoint, where that is not settled yet. */
export interface DrawnEpoch extends EpochStatus {
  readonly slots?: readonly SlotView[];
}

export interface DrawnChain {
  readonly star: string;
  readonly epochs: readonly DrawnEpoch[];
  readonly limbo: readonly LimboStatus[];
}

/** How many of the newest epochs are drawn; the table lists all of them. */
const DRAWN_EPOCHS = 4;

async function status(context: Context, options: StatusOptions): Promise<void> {
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  const failures: unknown[] = [];
  const chain = await withReader(context, options, async (reader) => {
    const { star, epochs, limbo } = await reader.status({ signal });
    const drawn = epochs.slice(-DRAWN_EPOCHS);
    const seen = drawn.map(async (epoch): Promise<DrawnEpoch> => {
      if (epoch.state === 'settled' || epoch.state === 'retired') return epoch;
      try {
        return { ...epoch, slots: await reader.slots(epoch.epoch, { signal }) };
      } catch (error) {
        failures.push(error);
        return epoch;
      }
    });
    const earlier = epochs.slice(0, -DRAWN_EPOCHS);
    return { star, epochs: [...earlier, ...(await Promise.all(seen))], limbo };
  });
  const { charset, paint, width } = output.out;
  output.result(chain, () => chainLines(chain, { charset, paint, width: width(), maxRows: 3 }));
  // What the metastore says is told all the same.
  if (failures.length > 0) throw failures[0];
}

export function chainLines(chain: DrawnChain, options: GridOptions): string[] {
  const { paint } = options;
  if (chain.epochs.length === 0) return [`star ${chain.star}: no epochs yet`];
  const used = new Set<SlotMark>();
  const grids = chain.epochs.slice(-DRAWN_EPOCHS).flatMap((epoch) => {
    const marks = epochMarks(epoch);
    for (const mark of marks) used.add(mark);
    return ['', `epoch ${epoch.epoch}, ${epoch.state}`, ...slotGrid(0, marks, options)];
  });
  return [
    `star ${chain.star}: ${formatCount(chain.epochs.length)} epochs`,
    '',
    ...epochTable(chain.epochs, paint),
    ...grids,
    '',
    ...slotLegend(used, options),
    ...limboLines(chain.limbo, paint),
  ];
}

/** Streams that the star keeps because it could not release them. */
function limboLines(limbo: readonly LimboStatus[], paint: GridOptions['paint']): string[] {
  if (limbo.length === 0) return [];
  const rows = limbo.map(({ name, epoch, sinceMillis, code, message }) => [
    name,
    epoch.toString(),
    formatInstant(sinceMillis),
    code,
    message,
  ]);
  const columns = [
    { title: 'STREAM' },
    { title: 'EPOCH', align: 'right' as const },
    { title: 'IN LIMBO SINCE' },
    { title: 'CAUSE' },
    { title: 'MESSAGE' },
  ];
  return ['', ...table(columns, rows, paint)];
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

/** Every slot as far as it is known: in rows, seen in the buckets, below the cut, the cut itself. */
export function epochMarks({ checkpoint, cut, slots = [] }: DrawnEpoch): SlotMark[] {
  const marks = Array.from({ length: checkpoint }, (): SlotMark => 'settled');
  for (const { slot, verdict } of slots) marks[slot] = verdict;
  if (cut !== undefined) {
    // Whatever lies beyond the cut is garbage that nobody reads.
    marks.length = cut;
    marks.push('dead');
  }
  return Array.from(marks, (mark: SlotMark | undefined) => mark ?? 'committed');
}
