/** The list of decoders is complete: what reads bytes, text or options is in it, or is here with a reason. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { DECODERS } from './decoders.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Exported functions of `src/format` that decode nothing, besides `encode…` and `write…`. */
const NO_DECODERS: Readonly<Record<string, string>> = {
  'src/format/bytes.ts bufferOf': 'another view',
  'src/format/bytes.ts viewOf': 'another view',
  'src/format/bytes.ts isCount': 'a test of a number',
  'src/format/bytes.ts isName': 'a test of a text, reached by readName',
  'src/format/bytes.ts isUint32': 'a test of a number',
  'src/format/bytes.ts isWellFormed': 'a test of a text',
  'src/format/bytes.ts isZero': 'a test of bytes, reached by every parser',
  'src/format/bytes.ts refuse': 'makes an answer',
  'src/format/bytes.ts utf8Encode': 'encodes',
  'src/format/bytes.ts utf8WriterOf': 'encodes',
  'src/format/crc.ts crc32': 'a number of any bytes',
  'src/format/crc.ts crc32Combine': 'a number of numbers',
  'src/format/flight.ts headBytes': 'measures what is to be written',
  'src/format/flight-entry.ts entryBytes': 'measures what is to be written',
  'src/format/flight-entry.ts entryFault': 'a test of an entry, reached by parseHeader',
  'src/format/identity.ts identityKey': 'makes a key of the own set id',
  'src/format/peer-append.ts appendMessageBytes': 'measures what is to be written',
  'src/format/peer-fields.ts FieldWriter': 'encodes',
  'src/format/peer-frame.ts peerFrameHead': 'encodes',
  'src/format/peer-frame.ts peerProtocolError': 'makes an error',
  'src/format/preamble.ts headLengths': 'sums up a preamble that was parsed',
  'src/format/preamble.ts filledUp': 'rounds a number',
  'src/format/records.ts byteLengthOf': 'measures what is to be written',
  'src/format/records.ts recordEncodedBytes': 'measures what is to be written',
  'src/format/records.ts meteredBytes': 'measures what is to be written',
  'src/format/slot-object.ts sameFlight': 'compares two preambles that were parsed',
  'src/format/varint.ts varintBytes': 'measures what is to be written',
};

/** Exported functions elsewhere whose names sound like decoders. */
const SOUND_LIKE: Readonly<Record<string, string>> = {
  'actors/slot-inspection.ts inspectCell': 'inspectSlotObject and a copy of its answer',
  'src/adapters/s3/rules.ts checkRules':
    'asks the server; what it answers is read by judges within',
  'src/adapters/s3/failure.ts networkFailure': 'takes errors of Node, not what a server says',
  'src/engine/buckets.ts checkBuckets': 'asks servers; descriptors that were checked',
  'src/engine/s3-components.ts checkDistinctS3': 'compares descriptors that were checked',
  'src/engine/stores.ts checkPresent': 'asks the file system',
  'src/adapters/lmdb/environment.ts openEnvironment': 'checkFile, then LMDB itself',
  'src/cli/load/reports.ts parseReport': 'the first half of both decoders of reports',
  'src/cli/records/input.ts checkReadable': 'asks the file system',
  'src/cli/takeover/producer.ts checkTails': 'a loop of the demo',
  'src/lib/wait.ts checkOptionsObject': 'the first line of checkWaitOptions and others',
  'src/protocol/keys.ts unpad': 'reached by parseRow (its key)',
  'src/protocol/settings.ts checkQuorum': 'compares two numbers that were checked',
};

/** Files that take bytes or text apart and export no decoder. */
const RAW: Readonly<Record<string, string>> = {
  'src/cli/load/writer.worker.ts': 'its own arguments, written by its parent',
  'src/cli/takeover/member.worker.ts': 'its own arguments, written by its parent',
  'src/cli/package-root.ts': 'the package\u2019s own package.json',
  'src/engine/create.ts': 'names of options; tried with all others in api.test.ts',
};
const RAW_CODE =
  /JSON\.parse|TextDecoder|\.safeParse\(|\.readU?Int|\.readBigU?Int|\.readDouble|\.getUint|\.getBigUint|Buffer\.from\([^)]*'(?:hex|base64)/;

interface Exported {
  readonly file: string;
  readonly name: string;
}

function files(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => `${folder}/${path}`);
}

const product = ['src', 'actors', 'machines']
  .flatMap(files)
  .filter((file) => !/^src\/testing\//.test(file));
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

/** Functions and classes that a file exports by their own declaration. */
function exportedBy(file: string): Exported[] {
  const source = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.ES2023);
  const found: Exported[] = [];
  for (const statement of source.statements) {
    const isExported = ts.canHaveModifiers(statement)
      ? ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
      : false;
    if (isExported !== true) continue;
    if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) {
      found.push({ file, name: statement.name!.text });
    }
    if (ts.isVariableStatement(statement)) {
      for (const { name, initializer } of statement.declarationList.declarations) {
        const isFunction = initializer !== undefined && ts.isArrowFunction(initializer);
        if (isFunction && ts.isIdentifier(name)) found.push({ file, name: name.text });
      }
    }
  }
  return found;
}

const exported = product.flatMap(exportedBy);
const listed = new Set(DECODERS.map(({ file, name }) => `${file} ${name}`));
const titles = exported.map(({ file, name }) => `${file} ${name}`);

test('every decoder of the list is exported where it says', () => {
  expect([...listed].filter((title) => !titles.includes(title))).toEqual([]);
});

test('everything that src/format exports is fuzzed, encodes, or is excepted', () => {
  const missing = exported
    .filter(({ file, name }) => file.startsWith('src/format/') && !/^(?:encode|write)/.test(name))
    .map(({ file, name }) => `${file} ${name}`)
    .filter((title) => !listed.has(title) && !(title in NO_DECODERS));
  expect(missing).toEqual([]);
});

test('whatever sounds like a decoder elsewhere is fuzzed or excepted', () => {
  const missing = exported
    .filter(({ name }) => /^(?:decode|parse|inspect|check(?=[A-Z])|unp|resolveSettings)/.test(name))
    .map(({ file, name }) => `${file} ${name}`)
    .filter((title) => !listed.has(title) && !(title in SOUND_LIKE));
  expect(missing).toEqual([]);
});

test('whatever reads answers of object stores is fuzzed', () => {
  const missing = exported
    .filter(({ file }) => file.startsWith('src/adapters/s3/'))
    .filter(({ name }) => /^(?:judge|xml|unescape)|Failure$|CodeOf$|In$/.test(name))
    .map(({ file, name }) => `${file} ${name}`)
    .filter((title) => !listed.has(title) && !(title in SOUND_LIKE));
  expect(missing).toEqual([]);
});

test('every file that takes bytes or text apart exports a decoder of the list, or is excepted', () => {
  const homes = new Set(DECODERS.map(({ file }) => file));
  const missing = product.filter(
    (file) => RAW_CODE.test(textOf(file)) && !homes.has(file) && !(file in RAW),
  );
  expect(missing).toEqual([]);
});

test('no exception is left over', () => {
  const known = new Set(titles);
  const functions = [...Object.keys(NO_DECODERS), ...Object.keys(SOUND_LIKE)];
  expect(functions.filter((title) => !known.has(title) || listed.has(title))).toEqual([]);
  expect(
    Object.keys(RAW).filter((file) => !product.includes(file) || !RAW_CODE.test(textOf(file))),
  ).toEqual([]);
});
