/**
 * Breaks of the rules of leadership that a storm meets too rarely, each with the script that lets a
 * checker notice it. The same script must pass without the break.
 */
import type { Position } from '../../src/engine/api.ts';
import type { MetaEntry } from '../../src/ports/metastore.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { jsonOf, lyingMetastore, type Json, type Mutation } from './lies.ts';
import { facade, rowsInMemory, type Mutant } from './mutants.ts';
import type { Scenario } from './scenario.ts';

export interface ScriptedMutant extends Pick<Mutant, 'name' | 'rule' | 'mutate' | 'stream'> {
  readonly script: (scenario: Scenario) => Promise<void>;
}

const WRITER = /^streams\/[^/]+\/writer$/;

/** Writes of writer records that count as applied and are never sent. */
function swallowing(when: (record: Json, before: Json | undefined) => boolean): Mutation {
  return lyingMetastore((inner) => ({
    put: async (key, value, _expected, send) => {
      if (!WRITER.test(key)) return send(value);
      const before: MetaEntry | undefined = await inner.get(key);
      const old = before === undefined ? undefined : jsonOf(before.value);
      if (!when(jsonOf(value), old)) return send(value);
      return { kind: 'applied', version: 'never written' };
    },
  }));
}

/** Whatever stands in a writer record is overwritten. */
const blindWriter = lyingMetastore((inner) => ({
  put: async (key, value, _expected, send) => {
    if (!WRITER.test(key)) return send(value);
    for (;;) {
      const current = await inner.get(key);
      const result = await inner.put(key, value, current?.version ?? 'absent');
      if (result.kind === 'applied') return result;
    }
  },
}));

const tenureOf = (record: Json | undefined): Json | undefined =>
  record?.['kind'] === 'tenure' ? (record['tenure'] as Json) : undefined;

export const SCRIPTED_MUTANTS: readonly ScriptedMutant[] = [
  {
    name: 'an open leaves the mark unconsumed',
    rule: 'T1',
    mutate: swallowing((record, before) => before?.['kind'] === 'released' && !!tenureOf(record)),
    script: async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      await stream.close();
      const b = await scenario.start('b');
      await scenario.append(b, await scenario.open(b, 's'));
    },
  },
  {
    name: 'a rolled stream is not named in its new epoch',
    rule: 'T1',
    mutate: swallowing((record, before) => {
      const [now, old] = [tenureOf(record), tenureOf(before)];
      return now !== undefined && now['star'] === old?.['star'] && now['epoch'] !== old?.['epoch'];
    }),
    script: rollBetweenAppends,
  },
  {
    name: 'a rolled stream goes on before its rows reach its last acknowledged record',
    rule: 'R3',
    mutate: rowsInMemory,
    script: rollBetweenAppends,
  },
  {
    name: 'a writer record is written blindly',
    rule: 'T6',
    mutate: blindWriter,
    script: async (scenario) => {
      const [a, b] = [await scenario.start('a'), await scenario.start('b')];
      const held = new Gate(scenario.world.scheduler, 'claim');
      scenario.world.metaScript.add({
        op: 'put',
        process: a.process.name,
        key: '/writer',
        fate: { kind: 'pass', requestGate: held },
      });
      const late = scenario.open(a, 's');
      await scenario.until(() => held.waiting > 0, 'the claim');
      const stream = await scenario.open(b, 's');
      await scenario.append(b, stream);
      held.open();
      await scenario.wait(100);
      await stream.close();
      await scenario.append(a, await late);
    },
  },
  {
    // R4: the version under which its batches were appended is gone.
    name: 'a star that slept takes a stream back that somebody else leads',
    rule: 'T6',
    mutate: (ports, process) =>
      process.name.startsWith('a.') ? blindWriter(ports, process) : ports,
    script: async (scenario) => {
      const [a, b] = [await scenario.start('a'), await scenario.start('b')];
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.pause();
      await scenario.wait(6_000);
      const taken = await scenario.open(b, 's');
      await scenario.append(b, taken);
      a.process.wake();
      await scenario.append(a, stream);
      await scenario.wait(5_000);
      await scenario.append(b, taken);
    },
  },
  {
    name: 'a deletion is not decided in the writer record',
    rule: 'T5',
    mutate: swallowing((record) => record['kind'] === 'deleted'),
    script: async (scenario) => {
      const [a, b] = [await scenario.start('a'), await scenario.start('b')];
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const held = new Gate(scenario.world.scheduler, 'stale name');
      scenario.world.metaScript.add({
        op: 'get',
        process: b.process.name,
        key: '/writer',
        fate: { kind: 'pass', requestGate: held },
      });
      // b knows the stream by its name already when it is deleted.
      const late = scenario.open(b, 's');
      await scenario.until(() => held.waiting > 0, 'the gate');
      await scenario.delete(a, 's', stream.id);
      a.process.crash();
      await scenario.wait(4_000);
      held.open();
      await scenario.append(b, await late);
    },
  },
  {
    name: 'an append is sent again without its condition',
    rule: 'K',
    stream: (stream) => ({
      ...facade(stream),
      append: (records, { matchSeqNum: _, ...options } = {}) => stream.append(records, options),
    }),
    script: async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream, { matchSeqNum: 0 });
      await scenario.append(a, stream, { matchSeqNum: 7 });
      await scenario.append(a, stream, { matchSeqNum: 1 });
    },
  },
  {
    name: 'an append is sent again without its token',
    rule: 'K',
    stream: (stream) => ({
      ...facade(stream),
      append: (records, { fencingToken: _, ...options } = {}) => stream.append(records, options),
    }),
    script: async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await stream.fence('first');
      await scenario.append(a, stream, { fencingToken: 'first' });
      await stream.fence('second');
      await scenario.append(a, stream, { fencingToken: 'second' });
      await scenario.append(a, stream, { fencingToken: 'first' });
    },
  },
  {
    // L2: whoever sent its release knows nothing of the stream any more.
    name: 'a released stream is still served',
    rule: 'L1',
    stream: (stream) => {
      let last: Position | undefined;
      return {
        ...facade(stream),
        close: async (options) => {
          last = await stream.checkTail(options);
          await stream.close(options);
        },
        checkTail: async (options) => last ?? stream.checkTail(options),
      };
    },
    script: async (scenario) => {
      const [a, b] = [await scenario.start('a'), await scenario.start('b')];
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      await stream.close();
      await scenario.append(b, await scenario.open(b, 's'));
      await scenario.checkTail(a, stream);
    },
  },
];

async function rollBetweenAppends(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream, { records: 3 });
  await a.engine.roll({ timeoutMillis: 30_000 });
  await scenario.append(a, stream);
}
