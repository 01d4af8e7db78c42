/**
 * Keys as paths below `objects/`. The directory part of a key becomes ONE directory, `/` written as
 * `+` (which no key contains), so that an epoch is a directory and `b` and `b/1` may coexist.
 * Names longer than the file systems' 255 bytes are cut into nested directories whose names end in
 * `,`: "goes on inside".
 */

/** Where an object lives below `objects/`. */
export interface Place {
  /** Path of its directory, `/` between nested parts. */
  readonly directory: string;
  readonly file: string;
}

const SEPARATOR = '+';
const CONTINUED = ',';
/** The directory of keys without a `/`. */
const TOP = SEPARATOR;
const NAME_BYTES_MAX = 240;

/** Keys are checked ASCII (`checkObjectKey`): one byte a character, nothing else to escape. */
export function placeOf(key: string): Place {
  const at = key.lastIndexOf('/');
  const parts = pieces(at < 0 ? TOP : key.slice(0, at).replaceAll('/', SEPARATOR));
  const file = pieces(key.slice(at + 1));
  if (parts.length === 1 && file.length === 1) return { directory: parts[0]!, file: file[0]! };
  return { directory: [...parts, ...file.slice(0, -1)].join('/'), file: file.at(-1)! };
}

/** True for a directory whose name is cut and goes on inside it. */
export function isContinued(name: string): boolean {
  return name.endsWith(CONTINUED);
}

/** Puts the pieces of a cut name together again. */
export function joined(outer: string, inner: string): string {
  return outer === '' ? inner : outer.slice(0, -1) + inner;
}

/** What all keys in the directory begin with: its name as it was in the key, with the `/` at its end. */
export function keyPrefixOf(directoryName: string): string {
  return directoryName === TOP ? '' : `${directoryName.replaceAll(SEPARATOR, '/')}/`;
}

function pieces(name: string): string[] {
  if (name.length <= NAME_BYTES_MAX) return [name];
  const cut: string[] = [];
  let rest = name;
  while (rest.length > NAME_BYTES_MAX) {
    cut.push(rest.slice(0, NAME_BYTES_MAX) + CONTINUED);
    rest = rest.slice(NAME_BYTES_MAX);
  }
  return [...cut, rest];
}
