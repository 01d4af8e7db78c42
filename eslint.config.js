/**
 * Lint carries the architecture: which folder may import which, where time and randomness may come
 * from, how long files and functions may get. Every ban is shown to fire by
 * test/unit/repo/lint-rules.test.ts.
 */
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const FOLDERS = {
  lib: 'src/lib',
  format: 'src/format',
  protocol: 'src/protocol',
  ports: 'src/ports',
  machines: 'machines',
  workers: 'src/workers',
  adapters: 'src/adapters',
  actors: 'actors',
  engine: 'src/engine',
  testing: 'src/testing',
  server: 'src/server',
  inspect: 'src/inspect',
  cli: 'src/cli',
};

/** What a layer may import of the others; `types` may be named with `import type` only. */
const core = ['lib', 'format', 'protocol', 'ports'];
const hosted = [...core, 'machines', 'workers', 'actors'];
const LAYERS = {
  lib: { imports: [] },
  format: { imports: ['lib'] },
  protocol: { imports: ['lib', 'format'] },
  ports: { imports: ['lib', 'format', 'protocol'] },
  machines: { imports: ['lib', 'protocol'], types: ['format', 'ports'] },
  workers: { imports: [...core, 'machines'] },
  adapters: { imports: ['lib', 'format', 'ports'] },
  actors: { imports: [...core, 'machines', 'workers'] },
  engine: { imports: [...hosted, 'adapters'] },
  testing: { imports: [...hosted, 'engine', 'adapters/memory'] },
  server: { imports: [...hosted, 'engine'] },
  inspect: { imports: [...hosted, 'engine'] },
  cli: { imports: [...hosted, 'engine', 'server', 'inspect'] },
};

/** A technology enters through the layers named here. */
const PACKAGES = {
  xstate: ['machines', 'actors', 'engine', 'testing', 'inspect'],
  piscina: ['workers'],
  undici: ['adapters', 'server', 'inspect', 'cli'],
  lmdb: ['adapters'],
  '@aws-sdk': ['adapters'],
  commander: ['cli'],
};
const INPUT_OUTPUT =
  'child_process|cluster|dgram|dns|fs|http|http2|https|net|readline|repl|tls|worker_threads';
const WITHOUT_INPUT_OUTPUT = [...core, 'actors'];

/** Layers that may use real time and randomness; everything else gets them injected. */
const REAL_TIME = ['adapters', 'cli', 'workers'];

const CLOCK = 'Use the injected Clock (src/ports).';
const RANDOM = 'Use the injected Random (src/ports).';
const BANNED_GLOBALS = [
  ...['setTimeout', 'setInterval', 'setImmediate', 'performance'].map((name) => ({
    name,
    message: CLOCK,
  })),
  { name: 'fetch', message: 'Requests are made by an adapter, behind a port.' },
];
const BANNED_PROPERTIES = [
  { object: 'Date', property: 'now', message: CLOCK },
  { object: 'process', property: 'hrtime', message: CLOCK },
  { object: 'AbortSignal', property: 'timeout', message: CLOCK },
  { object: 'Math', property: 'random', message: RANDOM },
  ...['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues'].map((property) => ({
    object: 'crypto',
    property,
    message: RANDOM,
  })),
  ...BANNED_GLOBALS.map(({ name, message }) => ({
    object: 'globalThis',
    property: name,
    message,
  })),
];
const BANNED_SYNTAX = [
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: CLOCK },
  { selector: "CallExpression[callee.name='Date']", message: CLOCK },
];
const BANNED_MODULES = [
  { regex: '^(node:)?timers(/promises)?$', message: CLOCK },
  { regex: '^(node:)?perf_hooks$', importNames: ['performance'], message: CLOCK },
  {
    regex: '^(node:)?crypto$',
    importNames: ['randomUUID', 'randomBytes', 'randomInt', 'randomFillSync', 'getRandomValues'],
    message: RANDOM,
  },
];

/** Matches a relative specifier that climbs out of its own folder and into one of `folders`. */
function into(folders) {
  return `^(?:\\.\\./)+(?:src/)?(?:${folders.join('|')})/`;
}

function importPatterns(layer) {
  const { imports, types = [] } = LAYERS[layer];
  const others = Object.keys(LAYERS).filter((other) => other !== layer);
  const forbidden = others.filter((other) => !imports.includes(other) && !types.includes(other));
  const message = `Layer '${layer}' may import only: ${[...imports, ...types.map((t) => `types of ${t}`)].join(', ') || 'itself'}.`;
  const patterns = [];
  for (const other of forbidden) {
    const inside = imports.filter((path) => path.startsWith(`${other}/`));
    const regex = into([other]);
    const exceptions = inside.map((path) => `(?!(?:\\.\\./)+(?:src/)?${path}/)`).join('');
    patterns.push({ regex: `^${exceptions}${regex.slice(1)}`, message });
  }
  patterns.push({ regex: '^(?:\\.\\./)+(?:test|bench)/', message });
  patterns.push({ regex: '^(?:\\.\\./)+(?:src/)?index\\.ts$', message: 'Import the file itself.' });
  if (types.length > 0) patterns.push({ regex: into(types), allowTypeImports: true, message });
  return [...patterns, ...packagePatterns(layer)];
}

function packagePatterns(layer) {
  if (layer === 'machines') {
    const message = 'Machines are pure: of packages they import only xstate.';
    return [{ regex: '^(?!\\.{1,2}/|xstate(?:/|$))', message }];
  }
  const patterns = Object.entries(PACKAGES)
    .filter(([, layers]) => !layers.includes(layer))
    .map(([name, layers]) => ({
      regex: `^${name}(?:/|$)`,
      message: `${name} is used only in: ${layers.join(', ')}.`,
    }));
  if (WITHOUT_INPUT_OUTPUT.includes(layer)) {
    const message = 'Effects go through a port.';
    patterns.push({ regex: `^(?:node:)?(?:${INPUT_OUTPUT})(?:/|$)`, message });
  }
  return patterns;
}

/** The same bans for `import('…')`, which the rule on import declarations does not see. */
function dynamicImports(patterns) {
  return patterns
    .filter(({ importNames }) => importNames === undefined)
    .map(({ regex, message }) => ({
      selector: `ImportExpression > Literal[value=/${regex.replaceAll('/', '\\u002F')}/]`,
      message,
    }));
}

function layerRules(layer) {
  const realTime = REAL_TIME.includes(layer);
  const patterns = [...importPatterns(layer), ...(realTime ? [] : BANNED_MODULES)];
  const syntax = [...dynamicImports(patterns), ...(realTime ? [] : BANNED_SYNTAX)];
  return {
    name: `asterlog/layer/${layer}`,
    files: [`${FOLDERS[layer]}/**/*.ts`],
    rules: {
      '@typescript-eslint/no-restricted-imports': ['error', { patterns }],
      'no-restricted-syntax': ['error', ...syntax],
      ...(realTime ? {} : noRealTime()),
    },
  };
}

function noRealTime({ except = [] } = {}) {
  const allowed = ({ name, property }) => !except.includes(name ?? property);
  return {
    'no-restricted-globals': ['error', ...BANNED_GLOBALS.filter(allowed)],
    'no-restricted-properties': ['error', ...BANNED_PROPERTIES.filter(allowed)],
  };
}

export default defineConfig(
  globalIgnores(['dist/', 'bench/.built/', 'coverage/', 'test/fixtures/']),
  {
    name: 'asterlog/typescript',
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      'no-console': 'error',
      'max-lines': ['error', { max: 400 }],
      'max-lines-per-function': ['error', { max: 80, skipBlankLines: true, skipComments: true }],
      '@typescript-eslint/no-floating-promises': [
        'error',
        // Tests of Node's own runner are not awaited.
        { allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: ['test'] }] },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
      // Rules that fight ordinary code here.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-confusing-void-expression': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-invalid-void-type': 'off',
      '@typescript-eslint/no-extraneous-class': 'off',
      '@typescript-eslint/unified-signatures': 'off',
      '@typescript-eslint/no-unnecessary-type-parameters': 'off',
      '@typescript-eslint/no-dynamic-delete': 'off',
      '@typescript-eslint/prefer-literal-enum-member': 'off',
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/no-redundant-type-constituents': 'off',
    },
  },
  ...Object.keys(LAYERS).map(layerRules),
  {
    name: 'asterlog/public-door',
    files: ['src/*.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex: '^\\./(?:adapters|workers|testing|cli)/',
              message: 'The public door opens on the engine, never on adapters or tools.',
            },
            ...BANNED_MODULES,
          ],
        },
      ],
      'no-restricted-syntax': ['error', ...BANNED_SYNTAX],
      ...noRealTime(),
    },
  },
  {
    // The simulator lets real promises settle between two virtual events.
    name: 'asterlog/testing-scheduler',
    files: ['src/testing/scheduler*.ts', 'src/testing/**/scheduler*.ts'],
    rules: noRealTime({ except: ['setImmediate'] }),
  },
  {
    name: 'asterlog/outer',
    files: ['src/cli/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    name: 'asterlog/tests',
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: {
      'max-lines': ['error', { max: 800 }],
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
);
