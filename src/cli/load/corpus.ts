import { readdirSync, readFileSync } from 'node:fs';
import { crc32 } from '../../format/crc.ts';
import { EngineError } from '../../lib/errors.ts';
import { packageRoot } from '../package-root.ts';

/** Text as the lines it is appended by; the checksums are taken once, since lines are used often. */
export interface Corpus {
  readonly lines: readonly Uint8Array[];
  readonly checksums: Uint32Array;
}

const NEWLINE = 0x0a;
/** A longer line is cut: a record must fit into a batch. */
const MAX_LINE_BYTES = 64 * 1024;

/** The files, or else the text that comes with the package: its licence and its documentation. */
export function loadCorpus(files: readonly string[]): Corpus {
  const lines = (files.length === 0 ? shippedFiles() : files).flatMap((file) => linesOf(file));
  if (lines.length === 0) {
    throw new EngineError('INVALID_OPTION', 'the text has no lines', {
      details: { option: 'files', value: files.join(' ') },
    });
  }
  return { lines, checksums: Uint32Array.from(lines, (line) => crc32(line)) };
}

function shippedFiles(): URL[] {
  const root = packageRoot();
  const texts = (folder: URL, pattern: RegExp): URL[] => {
    try {
      const names = readdirSync(folder).filter((name) => pattern.test(name));
      return names.sort().map((name) => new URL(name, folder));
    } catch {
      return [];
    }
  };
  return [...texts(root, /^LICENSE$|\.md$/), ...texts(new URL('docs/', root), /\.md$/)];
}

function linesOf(file: string | URL): Uint8Array[] {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    throw new EngineError('INVALID_OPTION', 'a text cannot be read', {
      cause,
      details: { option: 'files', value: file.toString() },
    });
  }
  const lines: Uint8Array[] = [];
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = Math.min(newline < 0 ? bytes.length : newline, start + MAX_LINE_BYTES);
    if (end > start) lines.push(bytes.subarray(start, end));
    start = end === newline ? end + 1 : end;
  }
  return lines;
}
