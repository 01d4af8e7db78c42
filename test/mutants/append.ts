/** Mint (M) and append (A). */
import { othersBlind } from '../sim/lies.ts';
import type { Mutant } from './mutant.ts';
import {
  appendBeyondThePool,
  leaveABatchOver,
  loseOneRequest,
  meetLittlePoison,
  meetPoison,
  mintSlowly,
  mintTwice,
  crashBetweenTheTwoWritesOfAMint,
  restartInAnotherClass,
  repairFromDamage,
} from './append-scripts.ts';

const WRITER = 'actors/epoch-writer.ts';
const COPIES = 'actors/slot-copies.ts';
const MINT = 'actors/mint.ts';

const CREATE_RECORD = `  const put = await conditionalPut(
    metastore,
    {
      key,
      expected: 'absent',`;

export const APPEND_MUTANTS: readonly Mutant[] = [
  {
    name: 'a star mints without waiting for its lease record',
    invariant: 'M0',
    edits: [
      {
        file: 'actors/lease-registration.ts',
        find: 'const put = await writeLease(metastore, { key, lease, expected }, { clock, random, signal });',
        replace:
          "const put = { kind: 'applied' as 'applied' | 'conflict', version: 0 };\nvoid writeLease(metastore, { key, lease, expected }, { clock, random, signal }).catch(() => undefined);",
      },
    ],
    killer: { by: 'storm', seedsMax: 10 },
  },
  {
    name: 'slots are written before the record of their epoch is there',
    invariant: 'M1',
    edits: [
      {
        file: MINT,
        find: CREATE_RECORD,
        replace: CREATE_RECORD.replace(
          'const put = await conditionalPut(',
          "const put = { kind: 'applied' as const, version: 0 };\n  void conditionalPut(",
        ),
      },
    ],
    killer: { by: 'script', script: mintSlowly },
  },
  {
    name: 'two mints share a number after a conflict',
    invariant: 'M1',
    edits: [
      {
        file: MINT,
        find: "    if (put.kind === 'applied') return epoch;",
        replace: '    if (epoch >= 0) return epoch;',
      },
    ],
    killer: { by: 'script', script: mintTwice },
  },
  {
    name: 'the record of an epoch is created before its number is taken',
    invariant: 'M2',
    edits: [
      {
        file: MINT,
        find: '  const epoch = await takeNumber(ports, request, options);',
        replace:
          '  const chain = await metastore.get(chainKey(request.star), { signal: options.signal });\n' +
          '  const epoch = chain === undefined ? 0 : parseRecordValue(chainRecord, chain.key, chain.value).nextEpoch;',
      },
      {
        file: MINT,
        find: "if (put.kind === 'applied') return { record",
        replace:
          "if (put.kind === 'applied') await takeNumber(ports, request, options);\n  if (put.kind === 'applied') return { record",
      },
    ],
    killer: { by: 'script', script: crashBetweenTheTwoWritesOfAMint },
  },
  {
    name: 'a mint drops the head of every other class',
    invariant: 'M3',
    edits: [
      {
        file: MINT,
        find: 'const heads = { ...chain.heads, [request.class]: epoch };',
        replace: 'const heads = { [request.class]: epoch };',
      },
    ],
    killer: { by: 'script', script: restartInAnotherClass },
  },
  {
    name: 'a flight is acknowledged with one copy fewer than W',
    invariant: 'A1',
    edits: [
      {
        file: WRITER,
        find: 'if (state.counted === record.copyQuorum) this.#release();',
        replace: 'if (state.counted === Math.max(1, record.copyQuorum - 1)) this.#release();',
      },
      {
        file: WRITER,
        find: 'if (state === undefined || state.counted < this.record.copyQuorum) break;',
        replace: 'if (state === undefined || state.counted < this.record.copyQuorum - 1) break;',
      },
    ],
    killer: { by: 'storm', seedsMax: 20, when: ({ copies }) => copies > 1 },
  },
  {
    name: 'flights are acknowledged in the order in which their copies arrive',
    invariant: 'A1',
    edits: [
      {
        file: WRITER,
        find: 'const state = this.#slots.get(this.#released);',
        replace:
          'const state = [...this.#slots.values()].find((s) => s.flight.slot >= this.#released && s.counted >= this.record.copyQuorum);',
      },
    ],
    killer: { by: 'storm', seedsMax: 20, when: ({ window }) => window > 1 },
  },
  {
    name: 'a flight is sealed anew before it is sent again',
    invariant: 'A2',
    edits: [
      {
        file: COPIES,
        find: 'const outcome = await bucket.store.createOnly(key, bytes, { signal });',
        replace: [
          'const again = resent.has(bytes);',
          'resent.add(bytes);',
          'const body = again ? Uint8Array.from(bytes) : bytes;',
          'if (again) { const { preamble } = parsePreamble(body) as any; encodePreamble(body, 0, { ...preamble, released: 0 }); }',
          'const outcome = await bucket.store.createOnly(key, body, { signal });',
        ].join('\n'),
      },
      {
        file: COPIES,
        find: "import { parsePreamble, type Preamble } from '../src/format/preamble.ts';",
        replace:
          "import { encodePreamble, parsePreamble, type Preamble } from '../src/format/preamble.ts';\nconst resent = new WeakSet<Uint8Array>();",
      },
    ],
    killer: { by: 'script', script: loseOneRequest },
  },
  {
    name: 'an arena is used again while a bucket still reads it',
    invariant: 'A2',
    edits: [
      { file: WRITER, find: '    flight.hold();\n', replace: '' },
      {
        file: WRITER,
        find: '      flight.letGo();\n      if (state.pending > 0)',
        replace: '      if (state.pending > 0)',
      },
    ],
    killer: {
      by: 'script',
      script: appendBeyondThePool,
      // Memory for three flights.
      options: { settings: { poolBytes: 4 << 20, flightBytes: 1 << 20, absorbMillis: 100 } },
    },
  },
  {
    name: 'a repair copies bytes that it has not verified',
    invariant: 'A2',
    edits: [
      {
        file: 'actors/slot-writer.ts',
        find: 'if (found.print !== print || !parseFlight(bytes).ok) {',
        replace: 'if (found.print !== print && !parseFlight(bytes).ok) {',
      },
      {
        file: 'actors/slot-writer.ts',
        find: 'const found = inspectCell(bytes, bytes.length, this.#expected(slot));\n      if',
        replace: 'const found = { print };\n      if',
      },
    ],
    killer: { by: 'script', script: repairFromDamage },
  },
  {
    name: 'a writer halts a moment after it was shown the end',
    invariant: 'A3',
    edits: [
      {
        file: WRITER,
        find: 'this.halt({ slot, bucket: bucket.store.name, found: result.found });',
        replace:
          'const { found } = result;\nthis.#input.ports.clock.setTimeout(() => this.halt({ slot, bucket: bucket.store.name, found }), 5);',
      },
    ],
    killer: { by: 'script', script: meetPoison, options: { mutate: othersBlind } },
  },
  {
    name: 'a writer takes poison for an answer that was lost',
    invariant: 'A3',
    edits: [
      {
        file: COPIES,
        find: "    case 'exists':\n      return judge(task, outcome.head, outcome.sizeBytes);",
        replace: [
          "    case 'exists': {",
          '      const judged = judge(task, outcome.head, outcome.sizeBytes);',
          "      return judged.kind === 'lost' && judged.found === 'poison' ? undefined : judged;",
          '    }',
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: meetPoison, options: { mutate: othersBlind } },
  },
  {
    name: 'a halted writer goes on acknowledging what W buckets hold',
    invariant: 'A3',
    edits: [
      {
        file: WRITER,
        find: 'while (this.#lost === undefined && !this.#turn.isSpent) {',
        replace: 'while (!this.#turn.isSpent) {',
      },
    ],
    killer: { by: 'script', script: meetLittlePoison },
  },
  {
    name: 'an object that exists already counts as the own copy',
    invariant: 'A4',
    edits: [
      {
        file: COPIES,
        find: '      return judge(task, outcome.head, outcome.sizeBytes);\n    case',
        replace: "      return { kind: 'stored' };\n    case",
      },
    ],
    killer: { by: 'script', script: meetPoison, options: { mutate: othersBlind } },
  },
  {
    name: 'an answer that was lost counts as a copy',
    invariant: 'A4',
    edits: [
      {
        file: COPIES,
        find: "return read.kind === 'found' ? judge(task, read.bytes, read.sizeBytes) : undefined;",
        replace:
          "return read.kind === 'found' ? judge(task, read.bytes, read.sizeBytes) : { kind: 'stored' };",
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'a passed deadline is called a definite failure',
    invariant: 'A5',
    edits: [
      {
        file: 'actors/append-batch.ts',
        find: "      sideEffects: 'possible',\n      details: { timeoutMillis, storage: cause?.code },",
        replace:
          "      sideEffects: 'none',\n      details: { timeoutMillis, storage: cause?.code },",
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'a batch that the cut leaves over is never answered',
    invariant: 'A5',
    edits: [
      {
        file: 'actors/star-roll.ts',
        find: 'for (const part of flight.removeStream(streamId)) part.dropped(error);',
        replace: 'void error;\n        flight.removeStream(streamId);',
      },
    ],
    killer: { by: 'script', script: leaveABatchOver, options: { mutate: othersBlind } },
  },
];
