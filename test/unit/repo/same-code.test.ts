/**
 * The simulator runs the product itself: whatever of it an engine loads, a storm loads too, and
 * nothing of it is written again for the simulator.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { importsOf, reachedFrom, type ReadModule } from '../../support/import-graph.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read: ReadModule = (path) => readFileSync(join(root, path), 'utf8');

const SIMULATOR = ['test/sim/storm.ts', 'test/sim/scenario.ts'];
/** Where decisions, charts, effects, formats and the API live. */
const PROVEN = /^(?:actors|machines|src\/engine|src\/protocol|src\/format)\//;

/** What the public entry loads beyond `host.ts`, and why storms do not. */
const BEYOND_HOST: Readonly<Record<string, string>> = {
  'src/engine/create.ts': 'the public entry: builds ports from descriptors, then host.ts',
  'src/engine/instantiate.ts': 'opens adapters; a world brings ports of its own',
  'src/engine/metered.ts': 'counts calls of adapters',
  'src/engine/s3-stores.ts': 'opens adapters',
  'src/engine/stores.ts': 'what opens adapters shares',
  'src/engine/forwarding/listen-options.ts': 'options of a listener; a world has its own network',
  'src/engine/read-only.ts': 'a reader without a lease writes nothing',
  'src/engine/slot-views.ts': 'of the reader without a lease',
  'actors/committed-run.ts': 'of the reader without a lease',
};

/** Who may write stored bytes: it plays somebody else than an engine. */
const WRITERS: Readonly<Record<string, string>> = {
  'test/sim/foreign-flight.ts': 'a flight of another writer',
  'test/sim/fencing.sim.test.ts': 'poison of another fencer',
  'test/sim/lease-loss.sim.test.ts': 'a lease record as somebody else overwrites it',
  'test/sim/lies.ts': 'records as a break of the metastore would show them',
  'test/sim/chaos.ts': 'lease records that end under live holders, keys that come back late',
};

/** Of the name of an exported function of the product, and something else. */
const NAMESAKES: Readonly<Record<string, string>> = {
  'test/sim/meta-index.ts tenureOf': 'picks a field of a record that was parsed',
  'src/testing/faulty-metastore.ts abandonedError': 'of a call whose caller gave up',
};

function files(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => `${folder}/${path}`)
    .sort();
}

/** What `entry` loads of the product and the simulator does not. */
function notSimulated(entry: string, simulator: readonly string[], from: ReadModule): string[] {
  const simulated = reachedFrom(simulator, from);
  return [...reachedFrom([entry], from)]
    .filter((path) => PROVEN.test(path) && !simulated.has(path))
    .sort();
}

/** What is wrong with a file of the simulator: it brings charts or writes stored bytes. */
function writtenAgain(path: string, from: ReadModule): string[] {
  return importsOf(path, from).flatMap(({ from: module, names }) => {
    if (module === 'xstate' || module.startsWith('xstate/')) return [`${path} brings a chart`];
    if (!/^src\/(?:format|protocol)\//.test(module)) return [];
    return names
      .filter((name) => name === '*' || /^(?:encode|write|seal)(?=[A-Z]|$)/.test(name))
      .map((name) => `${path} writes with ${name}`);
  });
}

/** Functions and classes that a file declares at its top; of the product those that it exports. */
function declaredIn(path: string, exported = false): string[] {
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.ES2023);
  return source.statements
    .filter((statement) => ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement))
    .filter(
      ({ modifiers = [] }) =>
        !exported || modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword),
    )
    .flatMap(({ name }) => name?.text ?? []);
}

describe('a storm runs', () => {
  test('everything that an engine loads', () => {
    expect(notSimulated('src/engine/host.ts', SIMULATOR, read)).toEqual([]);
    expect(reachedFrom(['src/engine/host.ts'], read).size).toBeGreaterThan(120);
  });

  test('of what the public entry loads, all but what is excepted', () => {
    expect(notSimulated('src/engine/create.ts', SIMULATOR, read)).toEqual(
      Object.keys(BEYOND_HOST).sort(),
    );
  });

  test('every chart and every decision that there is', () => {
    const simulated = reachedFrom(SIMULATOR, read);
    const all = [...files('machines'), ...files('src/protocol')];
    expect(all.filter((path) => path !== 'machines/index.ts' && !simulated.has(path))).toEqual([]);
  });
});

describe('nothing is written again', () => {
  const simulator = [...files('test/sim'), ...files('src/testing')];

  test('no chart, and stored bytes only where somebody else is played', () => {
    const wrong = simulator
      .filter((path) => !(path in WRITERS))
      .flatMap((path) => writtenAgain(path, read));
    expect(wrong).toEqual([]);
    expect(Object.keys(WRITERS).filter((path) => !simulator.includes(path))).toEqual([]);
  });

  test('no function or class of the name of one of the product', () => {
    const product = new Map(
      ['actors', 'machines', 'src/protocol', 'src/format']
        .flatMap(files)
        .flatMap((path) => declaredIn(path, true).map((name) => [name, path] as const)),
    );
    const twice = simulator.flatMap((path) =>
      declaredIn(path)
        .filter((name) => product.has(name) && !(`${path} ${name}` in NAMESAKES))
        .map((name) => `${name}: ${path} and ${product.get(name)!}`),
    );
    expect(twice).toEqual([]);
  });
});

describe('the proof can fail', () => {
  const modules: Readonly<Record<string, string>> = {
    'src/engine/host.ts': "import { judge } from '../protocol/judge.ts';\nimport './late.ts';",
    'src/engine/late.ts': "export const late = () => import('../../actors/late.ts');",
    'src/protocol/judge.ts': 'export const judge = 1;',
    'actors/late.ts': 'export const late = 1;',
    'test/sim/types-only.ts':
      "import type { judge } from '../../src/protocol/judge.ts';\nimport { type late } from '../../actors/late.ts';",
    'test/sim/chart.ts': "import { setup } from 'xstate';",
    'test/sim/writer.ts': "import { encodeHead as other } from '../../src/format/flight.ts';",
    'test/sim/all.ts': "export * from '../../src/format/flight.ts';",
    'src/format/flight.ts': 'export const encodeHead = 1;',
  };
  const fixture: ReadModule = (path) => modules[path] ?? '';

  test('by a module that the simulator does without, types and late imports considered', () => {
    expect(notSimulated('src/engine/host.ts', ['test/sim/types-only.ts'], fixture)).toEqual([
      'actors/late.ts',
      'src/engine/host.ts',
      'src/engine/late.ts',
      'src/protocol/judge.ts',
    ]);
    expect(notSimulated('src/engine/host.ts', ['src/engine/host.ts'], fixture)).toEqual([]);
  });

  test.each([
    ['test/sim/chart.ts', 'test/sim/chart.ts brings a chart'],
    ['test/sim/writer.ts', 'test/sim/writer.ts writes with encodeHead'],
    ['test/sim/all.ts', 'test/sim/all.ts writes with *'],
  ])('by %s', (path, wrong) => {
    expect(writtenAgain(path, fixture)).toEqual([wrong]);
  });
});
