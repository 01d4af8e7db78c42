/** JSON with integers of 64 bits, which `JSON.parse` would round: they are bigints here. */

const MARK = '\u0000u64:';
/** Strings are matched first, so that digits inside of them stay what they are. */
const LONG_INTEGERS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])\d{16,20}(?![\d.eE])/g;

export function lineOf(value: unknown): string {
  const text = JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'bigint' ? `${MARK}${item}` : item,
  );
  return text.replaceAll(/"\\u0000u64:(\d+)"/g, '$1');
}

/** Integers of 16 digits and more are bigints; all other numbers are numbers. */
export function parseLine(line: string): unknown {
  const marked = line.replaceAll(LONG_INTEGERS, (found) =>
    found.startsWith('"') ? found : `"\\u0000u64:${found}"`,
  );
  return JSON.parse(marked, (_key, item: unknown) =>
    typeof item === 'string' && item.startsWith(MARK) ? BigInt(item.slice(MARK.length)) : item,
  );
}
