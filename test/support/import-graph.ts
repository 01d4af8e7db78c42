/** What modules load at run time, from their import declarations. */
import { posix } from 'node:path';
import ts from 'typescript';

/** Reads a module by its path from the root of the repository. */
export type ReadModule = (path: string) => string;

export interface Import {
  /** The module as it is written, or its path from the root when it is one of ours. */
  readonly from: string;
  /** Names that exist at run time; empty for `import '…'`, `*` for all of them. */
  readonly names: readonly string[];
}

/** Imports and re-exports of a module that are there at run time; types are not. */
export function importsOf(path: string, read: ReadModule): Import[] {
  const text = read(path);
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023);
  const found: Import[] = [];
  const add = (specifier: ts.Expression | undefined, names: readonly string[]): void => {
    if (specifier === undefined || !ts.isStringLiteral(specifier)) return;
    const module = specifier.text;
    const from = module.startsWith('.') ? posix.join(posix.dirname(path), module) : module;
    found.push({ from, names });
  };
  const hasLate = text.includes('import(');
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const names = importedNames(node.importClause);
      if (names !== undefined) add(node.moduleSpecifier, names);
    } else if (ts.isExportDeclaration(node) && !node.isTypeOnly) {
      const names = exportedNames(node.exportClause);
      if (names !== undefined) add(node.moduleSpecifier, names);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], ['*']);
    }
    // Declarations stand at the top; only late imports stand deeper.
    if (node === source || hasLate) ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Every module of ours that the entries load, themselves included. */
export function reachedFrom(entries: readonly string[], read: ReadModule): Set<string> {
  const reached = new Set<string>();
  const left = [...entries];
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    for (const { from } of importsOf(path, read)) if (from.endsWith('.ts')) left.push(from);
  }
  return reached;
}

function importedNames(clause: ts.ImportClause | undefined): string[] | undefined {
  if (clause === undefined) return [];
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return undefined;
  const names = clause.name === undefined ? [] : ['default'];
  const { namedBindings } = clause;
  if (namedBindings !== undefined && ts.isNamespaceImport(namedBindings)) return [...names, '*'];
  const elements = namedBindings === undefined ? [] : valuesOf(namedBindings.elements);
  return names.length + elements.length === 0 ? undefined : [...names, ...elements];
}

function exportedNames(clause: ts.NamedExportBindings | undefined): string[] | undefined {
  if (clause === undefined || ts.isNamespaceExport(clause)) return ['*'];
  const names = valuesOf(clause.elements);
  return names.length === 0 ? undefined : names;
}

function valuesOf(elements: Iterable<ts.ImportSpecifier | ts.ExportSpecifier>): string[] {
  return [...elements]
    .filter(({ isTypeOnly }) => !isTypeOnly)
    .map(({ propertyName, name }) => (propertyName ?? name).text);
}
