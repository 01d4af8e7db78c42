/** Titles of tests, as they stand in their files. */
import ts from 'typescript';

const FUNCTIONS = new Set(['it', 'test']);

/** Of `it('…')`, `test('…')` and their forms such as `it.each(…)('…')`; templates as they are written. */
export function testTitles(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true);
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && FUNCTIONS.has(calledName(node))) {
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
function calledName({ expression }: ts.CallExpression): string {
  let inner: ts.Expression = expression;
  while (ts.isCallExpression(inner) || ts.isPropertyAccessExpression(inner))
    inner = inner.expression;
  return ts.isIdentifier(inner) ? inner.text : '';
}
