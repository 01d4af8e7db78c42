import { fileURLToPath } from 'node:url';
import { ESLint } from 'eslint';
import tseslint from 'typescript-eslint';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const typed = new ESLint({ cwd: root });
// Snippets under paths that do not exist have no type information; the bans on names need none.
const untyped = new ESLint({ cwd: root, overrideConfig: [tseslint.configs.disableTypeChecked] });

async function report(eslint: ESLint, path: string, code: string): Promise<string[]> {
  const [result] = await eslint.lintText(`${code}\n`, { filePath: `${root}${path}` });
  const messages = result?.messages ?? [];
  expect(messages.filter((message) => message.fatal)).toEqual([]);
  return messages.map(({ ruleId, message }) => `${String(ruleId)}: ${message}`);
}

const IMPORT = '@typescript-eslint/no-restricted-imports';
const load = (path: string) => `import { thing } from '${path}';\nexport const other = thing;`;
const loadType = (path: string) =>
  `import type { Thing } from '${path}';\nexport type Other = Thing;`;

describe('a layer does not import', () => {
  it.each([
    ['src/lib/a.ts', '../format/flight.ts'],
    ['src/format/a.ts', '../protocol/slot.ts'],
    ['src/protocol/a.ts', '../ports/clock.ts'],
    ['src/ports/a.ts', '../../machines/fence.machine.ts'],
    ['machines/a.ts', '../src/workers/pool.ts'],
    ['machines/a.ts', '../actors/fence.actor.ts'],
    ['machines/a.ts', '../src/adapters/s3/store.ts'],
    ['machines/a.ts', '../src/format/flight.ts'],
    ['machines/a.ts', '../src/ports/clock.ts'],
    ['machines/a.ts', 'node:crypto'],
    ['machines/a.ts', 'piscina'],
    ['src/engine/a.ts', '@aws-sdk/credential-provider-node'],
    ['machines/a.ts', 'undici'],
    ['machines/a.ts', 'lmdb'],
    ['src/workers/a.ts', '../../actors/fence.actor.ts'],
    ['src/adapters/s3/a.ts', '../../protocol/slot.ts'],
    ['src/adapters/s3/a.ts', '../../engine/create.ts'],
    ['actors/a.ts', '../src/engine/create.ts'],
    ['actors/a.ts', '../src/adapters/memory/store.ts'],
    ['actors/a.ts', 'node:fs/promises'],
    ['src/engine/a.ts', '../server/http.ts'],
    ['src/engine/a.ts', '../testing/scheduler.ts'],
    ['src/engine/threads/a.ts', '../../cli/main.ts'],
    ['src/server/a.ts', '../adapters/memory/store.ts'],
    ['src/server/a.ts', '../cli/main.ts'],
    ['src/inspect/a.ts', '../server/http.ts'],
    ['src/cli/a.ts', '../adapters/s3/store.ts'],
    ['src/cli/a.ts', '../testing/faults.ts'],
    ['src/testing/a.ts', '../adapters/s3/store.ts'],
    ['src/testing/a.ts', '../cli/main.ts'],
    ['src/index.ts', './adapters/memory/store.ts'],
    ['src/engine/a.ts', '../../test/support/world.ts'],
    ['src/engine/a.ts', 'lmdb'],
  ])('%s: %s', async (path, specifier) => {
    expect(await report(untyped, path, load(specifier))).toEqual([
      expect.stringContaining(IMPORT) as string,
    ]);
  });

  it.each([
    ['machines/a.ts', '../src/adapters/s3/store.ts'],
    ['src/lib/a.ts', '../ports/clock.ts'],
  ])('not even a type, %s: %s', async (path, specifier) => {
    expect(await report(untyped, path, loadType(specifier))).toHaveLength(1);
  });

  it('dynamically either', async () => {
    const found = await report(untyped, 'src/engine/a.ts', "await import('../server/http.ts');");
    expect(found).toEqual([expect.stringContaining("Layer 'engine' may import only") as string]);
  });
});

describe('a layer imports', () => {
  it.each([
    ['src/protocol/a.ts', '../format/flight.ts'],
    ['machines/a.ts', '../src/protocol/fence.ts'],
    ['machines/a.ts', './fence.machine.ts'],
    ['machines/a.ts', 'xstate'],
    ['actors/a.ts', '../machines/fence.machine.ts'],
    ['src/workers/a.ts', '../protocol/slot.ts'],
    ['src/adapters/s3/a.ts', '../../ports/bucket-store.ts'],
    ['src/adapters/s3/a.ts', 'undici'],
    ['src/engine/a.ts', '../adapters/s3/store.ts'],
    ['src/testing/a.ts', '../adapters/memory/store.ts'],
    ['src/cli/a.ts', '../server/http.ts'],
    ['src/index.ts', './engine/create.ts'],
    ['test/sim/a.ts', '../../src/testing/scheduler.ts'],
    ['test/sim/a.ts', '../../src/adapters/s3/store.ts'],
    ['bench/a.ts', '../src/testing/scheduler.ts'],
  ])('%s: %s', async (path, specifier) => {
    expect(await report(untyped, path, load(specifier))).toEqual([]);
  });

  it.each(['../src/format/flight.ts', '../src/ports/clock.ts'])(
    'types only, machines: %s',
    async (specifier) => {
      expect(await report(untyped, 'machines/a.ts', loadType(specifier))).toEqual([]);
    },
  );
});

const REAL = [
  ['setTimeout(run, 5);', 'Clock'],
  ['setInterval(run, 5);', 'Clock'],
  ['setImmediate(run);', 'Clock'],
  ['globalThis.setTimeout(run, 5);', 'Clock'],
  ['performance.now();', 'Clock'],
  ['Date.now();', 'Clock'],
  ['new Date();', 'Clock'],
  ['process.hrtime.bigint();', 'Clock'],
  ['AbortSignal.timeout(5);', 'Clock'],
  ["import 'node:timers/promises';", 'Clock'],
  ["await import('node:timers/promises');", 'Clock'],
  ['Math.random();', 'Random'],
  ['crypto.randomUUID();', 'Random'],
  ["import { randomBytes } from 'node:crypto';\nrandomBytes(4);", 'Random'],
  ["void fetch('http://localhost');", 'port'],
] as const;

describe('real time and randomness', () => {
  it.each(REAL)('are banned in the core: %s', async (code, replacement) => {
    for (const folder of ['src/lib', 'src/engine', 'src/testing', 'actors', 'src/server']) {
      const found = await report(untyped, `${folder}/a.ts`, code);
      expect(found, folder).toEqual([expect.stringContaining(replacement) as string]);
    }
  });

  it.each(REAL)('are what adapters, the command and tests are made of: %s', async (code) => {
    for (const folder of ['src/adapters/s3', 'src/cli', 'src/workers', 'test/contract', 'bench']) {
      expect(await report(untyped, `${folder}/a.ts`, code), folder).toEqual([]);
    }
  });

  it('setImmediate stands in the scheduler of the simulator, the rest does not', async () => {
    const path = 'src/testing/scheduler.ts';
    expect(await report(untyped, path, 'setImmediate(run);')).toEqual([]);
    expect(await report(untyped, path, 'setTimeout(run, 5);')).toHaveLength(1);
  });

  it('a given instant is not the current time', async () => {
    expect(await report(untyped, 'src/lib/a.ts', 'export const d = new Date(0);')).toEqual([]);
  });
});

describe('sizes and output', () => {
  it.each([
    ['src/engine/a.ts', 401, ['max-lines']],
    ['test/unit/a.test.ts', 401, []],
    ['test/unit/a.test.ts', 801, ['max-lines']],
  ])('%s of %i lines', async (path, lines, rules) => {
    const code = Array.from({ length: lines }, (_, i) => `export const x${String(i)} = 0;`);
    const found = await report(untyped, path, code.join('\n'));
    expect(found.map((line) => line.split(':')[0])).toEqual(rules);
  });

  it('a function of 81 lines', async () => {
    const body = Array.from({ length: 79 }, (_, i) => `  run(${String(i)});`).join('\n');
    const found = await report(untyped, 'src/engine/a.ts', `export function f() {\n${body}\n}`);
    expect(found).toEqual([expect.stringContaining('max-lines-per-function') as string]);
  });

  it('console in the engine', async () => {
    const found = await report(untyped, 'src/engine/a.ts', "console.log('x');");
    expect(found).toEqual([expect.stringContaining('no-console') as string]);
  });
});

describe('promises', () => {
  it.each(['src/lib/assert.ts', 'machines/index.ts', 'bench/run.ts', 'test/dist/package.test.ts'])(
    'a floating one is reported in %s',
    async (path) => {
      const code = 'async function work(): Promise<void> {}\nwork();\nexport {};';
      expect(await report(typed, path, code)).toEqual([
        expect.stringContaining('no-floating-promises') as string,
      ]);
    },
  );
});
