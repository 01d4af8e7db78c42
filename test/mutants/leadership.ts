/** Tenure (T), Finish (N) and roll (R). */
import type { Mutant } from './mutant.ts';
import { othersBlind } from '../sim/lies.ts';
import {
  appendBehindEachOther,
  askOfARowsBuilder,
  claimOfUnknownOutcome,
  claimThatWasOvertaken,
  closeAfterRoll,
  closeByAZombie,
  deleteBesideALeader,
  deleteUnderAStaleName,
  drainWithABatchUnderWay,
  openAfterRelease,
  removeANameThatIsNew,
  rollAheadOfRows,
  rollBehindSilence,
  rollBetweenAppends,
  rollUnderLoad,
  sleepWhileAnotherLeads,
} from './leadership-scripts.ts';

const TENURE = 'actors/writer-tenure.ts';
const STREAM = 'actors/stream.actor.ts';
const GATE = 'actors/stream-gate.ts';
const CONDITIONAL = 'actors/conditional-write.ts';
const APPENDS = 'actors/stream-appends.ts';
const FINISH = 'actors/stream-finish.ts';

const CLAIM = "    const put = await this.#put({ kind: 'tenure', tenure });";

export const LEADERSHIP_MUTANTS: readonly Mutant[] = [
  {
    name: 'the writer record is named before the acknowledgement, not before the PUT',
    invariant: 'T1',
    edits: [
      {
        file: APPENDS,
        find: "      this.#enter();\n      return 'later';",
        replace: '      this.#enter();',
      },
      {
        file: APPENDS,
        find: 'const { queue } = entered.writer;',
        replace: 'const { queue } = this.#host.epoch().writer;',
      },
    ],
    killer: { by: 'script', script: rollBetweenAppends },
  },
  {
    name: 'a claim counts before its answer has come',
    invariant: 'T1',
    edits: [
      {
        file: TENURE,
        find: CLAIM,
        replace: [
          "    void this.#put({ kind: 'tenure', tenure }).catch(() => undefined);",
          "    const put = { kind: 'applied', version: 0 } as PutResult;",
        ].join('\n'),
      },
    ],
    killer: { by: 'storm', seedsMax: 10 },
  },
  {
    name: 'a rolled stream is not named in its new epoch',
    invariant: 'T1',
    edits: [
      {
        file: STREAM,
        find: 'if (!(await writer.claim(isCovered ? tenureOf(target.record) : writer.own))) {',
        replace: 'if (target === old) {',
      },
    ],
    killer: { by: 'script', script: rollBetweenAppends },
  },
  {
    name: 'an open leaves the mark unconsumed',
    invariant: 'T1',
    edits: [
      {
        file: TENURE,
        find: CLAIM,
        replace: [
          "    if (this.#seen?.record.kind === 'released') {",
          "      this.#seen = { ...this.#seen, record: { kind: 'tenure', tenure, attempt: '' } };",
          '      return true;',
          '    }',
          CLAIM,
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: openAfterRelease },
  },
  {
    name: 'an acknowledgement names the number after its own',
    invariant: 'T2',
    edits: [
      {
        file: 'actors/append-batch.ts',
        find: '      start: { seqNum: this.startSeqNum,',
        replace: '      start: { seqNum: this.startSeqNum + 1,',
      },
      {
        file: 'actors/append-batch.ts',
        find: '      end: { seqNum: this.endSeqNum,',
        replace: '      end: { seqNum: this.endSeqNum + 1,',
      },
    ],
    killer: { by: 'storm', seedsMax: 10 },
  },
  {
    name: 'a number is given again after a batch that waits',
    invariant: 'T2',
    edits: [
      {
        file: APPENDS,
        find: 'this.#nextSeqNum = accepted.endSeqNum;',
        replace: 'this.#nextSeqNum = this.#tail.end + accepted.endSeqNum - accepted.startSeqNum;',
      },
    ],
    killer: { by: 'script', script: appendBehindEachOther },
  },
  {
    name: 'a read goes on behind the batch after next',
    invariant: 'T2',
    edits: [
      {
        file: 'actors/stream-reader.ts',
        find: '          position += wanted.length;',
        replace: '          position += wanted.length + (wanted.length > 2 ? 1 : 0);',
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'the tail of a settled stream is read before the claim',
    invariant: 'T2',
    edits: [
      {
        file: GATE,
        find: '  async settlePredecessor(): Promise<StreamEvent> {',
        replace: [
          '  async settlePredecessor(): Promise<StreamEvent> {',
          '    const early = await this.#lastRow();',
          '    this.#found = { tail: early?.row.end ?? 0, state: early?.row.state ?? INITIAL_STREAM_STATE };',
        ].join('\n'),
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'a stream of a star that is not registered is taken without a fence',
    invariant: 'T3',
    edits: [
      {
        file: GATE,
        find: 'if (holder === undefined) return this.#unsettled(tenure);',
        replace: "if (holder === undefined) return { type: 'gate.passed' };",
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'the builder of the newest row counts as the leader',
    invariant: 'T4',
    edits: [
      {
        file: GATE,
        find: "      case 'examine':\n        return this.#examine(verdict.tenure, signal);",
        replace: [
          "      case 'examine': {",
          '        const { builder } = (await this.#lastRow())?.row ?? {};',
          '        const isWriter = builder === undefined || builder.incarnation === verdict.tenure.incarnation;',
          "        return isWriter ? this.#examine(verdict.tenure, signal) : { type: 'gate.passed' };",
          '      }',
        ].join('\n'),
      },
    ],
    killer: {
      by: 'script',
      script: askOfARowsBuilder,
      options: { settings: { absorbMillis: 60_000 } },
    },
  },
  {
    name: 'a deletion is not decided in the writer record',
    invariant: 'T5',
    edits: [
      {
        file: TENURE,
        find: '    const { own } = this;\n',
        replace: "    const { own } = this;\n    if (last.kind === 'deleted') return true;\n",
      },
    ],
    killer: { by: 'script', script: deleteUnderAStaleName },
  },
  {
    name: 'a stream is deleted by somebody who does not lead it',
    invariant: 'T5',
    edits: [
      {
        file: 'src/engine/host.ts',
        find: "    const actor = await this.#star.open(name, wait, 'refuse');\n    actor.finish('deleted');",
        replace: [
          '    const key = `streams/${record.stream}/writer`;',
          '    const entry = await ports.metastore.get(key);',
          "    const deleted = JSON.stringify({ kind: 'deleted', attempt: '0'.repeat(16) });",
          "    await ports.metastore.put(key, Buffer.from(deleted), entry?.version ?? 'absent');",
          '    if (entry !== undefined) return;',
          "    const actor = await this.#star.open(name, wait, 'refuse');\n    actor.finish('deleted');",
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: deleteBesideALeader },
    rule: 'T6',
    because: 'a deletion by anybody else takes the tenure from its holder before its cut',
  },
  {
    name: 'the metastore uses a version again after a delete',
    invariant: 'T5',
    edits: [
      {
        file: 'src/adapters/memory/metastore.ts',
        find: 'version: ++this.#version };',
        replace: 'version: this.#version++ * 0 + (current?.version ?? 0) + 1 };',
      },
    ],
    killer: { by: 'script', script: removeANameThatIsNew },
  },
  {
    name: 'a claim that met a conflict is written over what it met',
    invariant: 'T6',
    edits: [
      {
        file: TENURE,
        find: '      this.#conflict = { entry: put.current };\n      return false;',
        replace: '      this.saw(put.current);\n      return this.claim(tenure);',
      },
    ],
    killer: { by: 'script', script: claimThatWasOvertaken },
  },
  {
    name: 'a write of unknown outcome is sent again under the version found',
    invariant: 'T6',
    edits: [
      {
        file: CONDITIONAL,
        find: 'const result = await metastore.put(key, value, expected, { signal });',
        replace: [
          'const found = isRetry ? await metastore.get(key, { signal }) : undefined;',
          'const result = await metastore.put(key, value, found?.version ?? expected, { signal });',
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: claimOfUnknownOutcome },
  },
  {
    name: 'a superseded epoch is not fenced before its stream is taken',
    invariant: 'T6',
    edits: [
      {
        file: GATE,
        find: '    this.#measure.settled();\n',
        replace: '',
      },
      {
        file: GATE,
        find: '    await this.#host.settleFor(',
        replace: '    void this.#host.settleFor(',
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'a Finish does not wait for batches under way',
    invariant: 'N',
    edits: [
      {
        file: APPENDS,
        find: 'while (this.#underWay > 0 && !signal.aborted) {\n      this.#host',
        replace: 'while (this.#underWay > 1_000 && !signal.aborted) {\n      this.#host',
      },
    ],
    killer: { by: 'script', script: drainWithABatchUnderWay },
  },
  {
    name: 'a Finish covers the records of the newest epoch only',
    invariant: 'N',
    edits: [
      {
        file: STREAM,
        find: "    await this.enter();\n    return { type: 'batches.resolved' };",
        replace: "    return { type: 'batches.resolved' };",
      },
    ],
    killer: { by: 'script', script: closeAfterRoll },
  },
  {
    name: 'a stream is released above its tail',
    invariant: 'N',
    edits: [
      {
        file: FINISH,
        find: "outcome === 'deleted' ? { kind: 'deleted' } : { kind: 'released', tail },",
        replace:
          "outcome === 'deleted' ? { kind: 'deleted' } : { kind: 'released', tail: tail + 1 },",
      },
    ],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'a Finish asks an old read whether it is over',
    invariant: 'N',
    edits: [
      {
        file: FINISH,
        find: '    await ports.metastore.barrier(partitionOf(writer.key), { signal });\n',
        replace: '    void partitionOf;\n',
      },
    ],
    killer: {
      by: 'script',
      script: closeByAZombie,
      options: { mutate: othersBlind, settings: { absorbMillis: 50 } },
    },
  },
  {
    name: 'a flight below the cut goes on in the next epoch as well',
    invariant: 'R1',
    edits: [
      {
        file: 'actors/epoch-writer.ts',
        find: '        this.#released = slot + 1;\n        this.#acknowledge(state);',
        replace: [
          '        this.#released = slot + 1;',
          '        state.flight.hold();',
          '        stranded.push({ flight: state.flight, ended: requestsEnded(state) });',
          '        this.#acknowledge(state);',
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: rollBehindSilence },
  },
  {
    name: 'a roll drops what the cut leaves over',
    invariant: 'R2',
    edits: [
      {
        file: 'actors/star-roll.ts',
        find: '      this.#stranded.unshift(...placed);',
        replace: [
          '      for (const { flight, ended } of placed) {',
          '        await ended;',
          "        dropFlight(flight, () => new EngineError('FENCED', 'the epoch has ended'));",
          '      }',
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: rollUnderLoad },
  },
  {
    name: 'a rolled stream goes on before its rows reach its last acknowledged record',
    invariant: 'R3',
    edits: [
      {
        file: STREAM,
        find: 'const end = await this.#host.coverFor(stream, old.record.epoch, signal);',
        replace: 'const end = signal.aborted ? 0 : this.tail.end;',
      },
    ],
    killer: { by: 'script', script: rollAheadOfRows },
  },
  {
    name: 'a star that slept takes a stream back that somebody else leads',
    invariant: 'R4',
    edits: [
      {
        file: STREAM,
        find: 'if (!(await writer.claim(isCovered ? tenureOf(target.record) : writer.own))) {',
        replace: [
          'while (!(await writer.claim(tenureOf(target.record)))) {',
          '  writer.saw(await this.#host.ports.metastore.get(writer.key, { signal }));',
          '}',
          'if (target === old) {',
        ].join('\n'),
      },
    ],
    killer: {
      by: 'script',
      script: sleepWhileAnotherLeads,
      options: { settings: { absorbMillis: 50 } },
    },
  },
];
