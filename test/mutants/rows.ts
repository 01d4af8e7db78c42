/** Settle (S), absorb (B), and rows. */
import type { Mutant } from './mutant.ts';
import { takeOverWithoutBodies, twoBuildersOfOneChain, staleGap } from './rows-scripts.ts';

const REF_ROWS = 'actors/ref-rows.ts';

export const ROW_MUTANTS: readonly Mutant[] = [
  {
    name: 'settlement reads whole flights',
    invariant: 'S1',
    edits: [
      {
        file: 'actors/slot-heads.ts',
        find: 'const read = await bucket.store.readHead(key, DEFAULT_HEAD_READ_BYTES, { signal });',
        replace: 'const read = await bucket.store.readRange(key, 0, 1 << 24, { signal });',
      },
    ],
    killer: { by: 'script', script: takeOverWithoutBodies },
  },
  {
    name: 'a builder goes on from the row at its own key',
    invariant: 'S2',
    edits: [
      {
        file: REF_ROWS,
        find: '        last = await readLastRow(ports, streamId, options, written);\n        stalledRounds = 0;',
        replace:
          "        last = { row: { ...step.row, attempt: '' }, version: 0 };\n        stalledRounds = 0;",
      },
    ],
    killer: {
      by: 'script',
      script: twoBuildersOfOneChain,
      options: { settings: { absorbMillis: 100 } },
    },
    rule: 'S3',
    because: 'what a builder takes for covered and is not shows when the stream is opened',
  },
  {
    name: 'a row is written over the one that another builder has put there',
    invariant: 'S2',
    edits: [
      {
        file: REF_ROWS,
        find: "  metrics.counter(put.kind === 'applied' ? 'rows.created' : 'rows.conflicts').add();",
        replace: [
          "  if (put.kind === 'conflict' && put.current !== undefined) {",
          '    const value = encodeRecordValue({ ...row, attempt: random.hex(8) });',
          '    await metastore.put(put.current.key, value, put.current.version, options);',
          '  }',
        ].join('\n'),
      },
    ],
    killer: {
      by: 'script',
      script: twoBuildersOfOneChain,
      options: { settings: { absorbMillis: 100 } },
    },
  },
  {
    name: 'a stream opens as soon as the cut is published',
    invariant: 'S3',
    edits: [
      {
        file: 'actors/star.actor.ts',
        find: '    await settlements.covered(star, epoch, streamId, { signal }, fenced);',
        replace:
          '    void settlements.covered(star, epoch, streamId, { signal }, fenced).catch(() => undefined);',
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'rows count as written before they are',
    invariant: 'S3',
    edits: [
      {
        file: REF_ROWS,
        find: '        const written = await createRow(ports, streamId, step.row, options);',
        replace: [
          '        const written = undefined;',
          '        void createRow(ports, streamId, step.row, options).catch(() => undefined);',
          "        if (ports !== undefined) return { kind: 'covered', end: step.row.end, last };",
        ].join('\n'),
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'a gap below the entries counts as covered',
    invariant: 'S4',
    edits: [
      {
        file: 'src/protocol/ref-rows.ts',
        find: "return step.kind === 'gap' && !isFresh ? { kind: 'readFresh' } : step;",
        replace:
          "return step.kind === 'gap' ? { kind: 'covered', end: endOf(entries.at(-1)!) } : step;",
      },
    ],
    killer: { by: 'script', script: staleGap },
    rule: 'S3',
    because: 'no row above a gap is written: the stream opens without what it has acknowledged',
  },
  {
    name: 'a row names the slot beside its entries',
    invariant: 'S4',
    edits: [
      {
        file: 'src/protocol/coverage.ts',
        find: '    count: entry.count,\n    slot,',
        replace: '    count: entry.count,\n    slot: slot + 1,',
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'the checkpoint follows the acknowledgements, not the rows',
    invariant: 'B',
    edits: [
      {
        file: 'actors/absorber.ts',
        find: 'if (entries.length > 0) slots = Math.min(slots, entries[0]!.span.slot);',
        replace: 'if (entries.length > 1_000) slots = Math.min(slots, entries[0]!.span.slot);',
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'an epoch is settled although one of its streams is not covered',
    invariant: 'B',
    edits: [
      {
        file: 'actors/settlement-run.ts',
        find: '    await coverage.run(signal);',
        replace:
          "    void coverage.run(signal).catch(() => undefined);\n    if (signal !== undefined) return { type: 'streams.covered' };",
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
];
