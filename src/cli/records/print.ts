/** Records on standard output. */
import type { ReadRecord } from '../../engine/api.ts';
import type { Output } from '../output.ts';
import { recordToJson } from './ndjson.ts';

export const OUTPUT_FORMATS = ['lines', 'ndjson'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

const NEWLINE = Buffer.from('\n');

/** `lines` gives back what `append --format lines` took; command records are not lines and left out. */
export async function printRecords(
  records: readonly ReadRecord[],
  format: OutputFormat,
  output: Output,
): Promise<void> {
  if (format === 'ndjson') {
    await output.data(records.map((record) => `${recordToJson(record)}\n`).join(''));
    return;
  }
  const parts: Uint8Array[] = [];
  for (const record of records) {
    if (record.command === undefined) parts.push(record.body, NEWLINE);
  }
  if (parts.length > 0) await output.data(Buffer.concat(parts));
}
