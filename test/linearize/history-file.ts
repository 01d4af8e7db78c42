/** Histories as files: one stream each, as the public tool reads them. */
import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'node:path';
import { encodeEvent, type HistoryEvent } from './events.ts';
import { HistoryError, parseEvents } from './parse-events.ts';

/** @throws HistoryError when it cannot be written. */
export function writeHistory(file: string, events: readonly HistoryEvent[]): void {
  try {
    writeFileSync(file, events.map((event) => `${encodeEvent(event)}\n`).join(''));
  } catch (error) {
    throw new HistoryError(`${file} cannot be written: ${(error as Error).message}`);
  }
}

/** @throws HistoryError when no file of this name could be written: before what is to be written is played. */
export function assertWritable(file: string): void {
  try {
    accessSync(parse(file).dir || '.', constants.W_OK);
  } catch (error) {
    throw new HistoryError(`${file} cannot be written: ${(error as Error).message}`);
  }
}

/** @throws HistoryError when it cannot be read or holds nothing to be judged. */
export function readHistory(file: string): HistoryEvent[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new HistoryError(`${file} cannot be read: ${(error as Error).message}`);
  }
  const events = parseEvents(text);
  if (events.length === 0) throw new HistoryError(`${file} holds no event`);
  return events;
}

/** `runs.jsonl` and `seed 3 s0` give `runs.seed-3-s0.jsonl`. */
export function fileNameFor(file: string, label: string): string {
  const { dir, name, ext } = parse(file);
  const base = `${name}.${label.replaceAll(/\W+/g, '-')}${ext}`;
  return dir === '' ? base : `${dir}/${base}`;
}
