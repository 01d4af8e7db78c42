/** Histories as files: one stream each, as the public tool reads them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'node:path';
import { encodeEvent, type HistoryEvent } from './events.ts';
import { HistoryError, parseEvents } from './parse-events.ts';

export function writeHistory(file: string, events: readonly HistoryEvent[]): void {
  writeFileSync(file, events.map((event) => `${encodeEvent(event)}\n`).join(''));
}

/** @throws HistoryError when it cannot be read. */
export function readHistory(file: string): HistoryEvent[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new HistoryError(`${file} cannot be read: ${(error as Error).message}`);
  }
  return parseEvents(text);
}

/** `runs.jsonl` and `seed 3 s0` give `runs.seed-3-s0.jsonl`. */
export function fileNameFor(file: string, label: string): string {
  const { dir, name, ext } = parse(file);
  const base = `${name}.${label.replaceAll(/\W+/g, '-')}${ext}`;
  return dir === '' ? base : `${dir}/${base}`;
}
