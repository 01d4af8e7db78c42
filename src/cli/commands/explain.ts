import type { Command } from 'commander';
import type { ExplainedCell, ExplainedSlot } from '../../engine/operator.ts';
import { requireRoot } from '../components.ts';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { table } from '../drawing.ts';
import { formatInstant } from '../numbers.ts';
import { integerIn } from '../parse.ts';
import { addStoreOptions, type StoreOptions } from '../store.ts';

type ExplainOptions = StoreOptions & CommonOptions;

export function registerExplain(program: Command, context: Context): void {
  const any = integerIn(0, Number.MAX_SAFE_INTEGER);
  const command = program
    .command('explain')
    .argument('<star>', 'the chain')
    .argument('<epoch>', 'the epoch', any)
    .argument('<slot>', 'the slot', any)
    .summary('show what each bucket holds of a slot, and why it is what it is')
    .description('Looks at one slot in every bucket: who wrote it, what counts, what follows.');
  addCommonOptions(addStoreOptions(command)).action(
    (star: string, epoch: number, slot: number, options: ExplainOptions) =>
      explain(context, { star, epoch, slot }, options),
  );
}

async function explain(
  context: Context,
  target: { readonly star: string; readonly epoch: number; readonly slot: number },
  options: ExplainOptions,
): Promise<void> {
  requireRoot(options);
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  const explained = await context.door.explain(options, target, { signal });
  output.result(explained, () => explanation(explained, output.out.paint));
}

export function explanation(slot: ExplainedSlot, paint: Parameters<typeof table>[2]): string[] {
  const { buckets, copyQuorum, blockingSet, checkpoint, cut, state } = slot;
  const cursors =
    cut === undefined ? `checkpoint ${checkpoint}` : `checkpoint ${checkpoint}, cut ${cut}`;
  return [
    `slot ${slot.slot} of epoch ${slot.epoch} of ${slot.star}: ${slot.verdict}`,
    `epoch: ${state}, K=${buckets} W=${copyQuorum} B=${blockingSet}, ${cursors}`,
    '',
    ...table(
      [
        { title: 'BUCKET' },
        { title: 'HOLDS' },
        { title: 'COUNTS' },
        { title: 'IDENTITY' },
        { title: 'BYTES', align: 'right' },
        { title: 'DETAIL' },
      ],
      slot.cells.map((cell) => [
        cell.bucket,
        cell.holds,
        cell.counts ? 'yes' : 'no',
        cell.identity,
        cell.sizeBytes?.toString() ?? '',
        detailOf(cell),
      ]),
      paint,
    ),
    '',
    ...slot.why.map((reason) => `- ${reason}`),
  ];
}

function detailOf({ flight, poison, problem }: ExplainedCell): string {
  if (problem !== undefined) return problem;
  if (poison !== undefined) {
    const by = poison.byEpoch === undefined ? poison.byStar : `${poison.byStar}/${poison.byEpoch}`;
    return `by ${by} (${poison.byIncarnation.slice(0, 8)}) at ${formatInstant(poison.atMillis)}`;
  }
  if (flight === undefined) return '';
  const records = flight.entries.reduce((sum, { count }) => sum + count, 0);
  return `${records} records in ${flight.entries.length} entries, released ${flight.released}`;
}
