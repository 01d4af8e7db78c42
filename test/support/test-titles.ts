/** Titles of tests, as they stand in their files. */
import ts from 'typescript';

const FUNCTIONS = new Set(['it', 'test']);
const GROUPS = new Set(['describe', 'suite']);
/** Forms that never run, or must fail. */
const NEVER = new Set(['skip', 'todo', 'fails']);

/** Of `it('…')`, `test('…')` and their forms such as `it.each(…)('…')`; templates as they are written. Without tests that are never run. */
export function testTitles(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true);
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    const called = ts.isCallExpression(node) ? calledOf(node) : undefined;
    if (called !== undefined && called.isNeverRun) return;
    if (ts.isCallExpression(node) && FUNCTIONS.has(called!.name)) {
      const [title] = node.arguments;
      if (title !== undefined && ts.isStringLiteralLike(title)) titles.push(title.text);
      else if (title !== undefined && ts.isTemplateExpression(title)) {
        titles.push(title.getText().slice(1, -1));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return titles;
}

/** `it` of `it.each(cases)(…)`. */
function calledOf({ expression }: ts.CallExpression): { name: string; isNeverRun: boolean } {
  let inner: ts.Expression = expression;
  let isNever = false;
  while (ts.isCallExpression(inner) || ts.isPropertyAccessExpression(inner)) {
    if (ts.isPropertyAccessExpression(inner) && NEVER.has(inner.name.text)) isNever = true;
    inner = inner.expression;
  }
  const name = ts.isIdentifier(inner) ? inner.text : '';
  return { name, isNeverRun: isNever && (FUNCTIONS.has(name) || GROUPS.has(name)) };
}
