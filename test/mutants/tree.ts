/** A copy of the tree in which one rule is broken. The product on disk is never touched. */
import {
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Edit, Mutant } from './mutant.ts';

export const ROOT = join(import.meta.dirname, '../..');

const COPIED = [
  ...['src', 'actors', 'machines', 'package.json', 'tsconfig.json'],
  ...['test/sim', 'test/model', 'test/mutants', 'test/support', 'test/tsconfig.json'],
];

/** In every copy: tells the process of each failed assertion, also of one that an actor swallows. */
const TELL: readonly Edit[] = [
  {
    file: 'src/lib/assert.ts',
    find: "override readonly name = 'AssertionError';",
    replace: [
      "override readonly name = 'AssertionError';",
      'constructor(message: string) {',
      '  super(message);',
      '  (globalThis as any).onBrokenInvariant?.(message);',
      '}',
    ].join('\n'),
  },
  {
    file: 'src/lib/errors.ts',
    find: "this.name = 'EngineError';",
    replace: [
      "this.name = 'EngineError';",
      "if (code === 'INVARIANT') (globalThis as any).onBrokenInvariant?.(summary);",
    ].join('\n'),
  },
];

/** Why the edit does not fit any more; undefined when it does. */
function misfit({ file, find }: Edit, read = readSource): string | undefined {
  const count = read(file).split(find).length - 1;
  return count === 1 ? undefined : `its text occurs ${count} times in ${file}`;
}

const readSource = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** What must be brought up to date because the product has changed, in words. */
export function misfits(mutants: readonly Mutant[]): readonly string[] {
  return mutants.flatMap(({ name, edits }) =>
    edits.flatMap((edit) => {
      const problem = misfit(edit);
      return problem === undefined ? [] : [`"${name}" must be brought up to date: ${problem}`];
    }),
  );
}

/** @throws Error naming the mutant that must be brought up to date. */
export function growTree({ name, edits }: Pick<Mutant, 'name' | 'edits'>): string {
  const tree = mkdtempSync(join(tmpdir(), 'asterlog-mutant-'));
  try {
    for (const path of COPIED) cpSync(join(ROOT, path), join(tree, path), { recursive: true });
    symlinkSync(realpathSync(join(ROOT, 'node_modules')), join(tree, 'node_modules'));
    for (const edit of [...edits, ...TELL]) {
      const path = join(tree, edit.file);
      const source = readFileSync(path, 'utf8');
      const problem = misfit(edit, () => source);
      if (problem !== undefined) {
        throw new Error(`the mutant "${name}" must be brought up to date: ${problem}`);
      }
      // A function, so that nothing in the text is taken for a pattern.
      writeFileSync(
        path,
        source.replace(edit.find, () => edit.replace),
      );
    }
    return tree;
  } catch (error) {
    fellTree(tree);
    throw error;
  }
}

export function fellTree(tree: string): void {
  rmSync(tree, { recursive: true, force: true });
}
