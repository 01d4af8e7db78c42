/**
 * What a writer process tells its parent, as lines of JSON on a pipe of its own. The pipe outlives a
 * SIGKILL of the writer: whatever was written into it before is still read.
 */
import type { FenceProgress, RecoverySummary } from '../../engine/api.ts';

/** One acknowledged batch; `stream` counts from 0 in the order of the configuration. */
export interface AckReport {
  readonly run: number;
  readonly producer: number;
  readonly batch: number;
  readonly stream: number;
  readonly start: number;
  readonly startTimestamp: number;
  readonly end: number;
  readonly endTimestamp: number;
  readonly checksum: number;
  readonly bodyBytes: number;
  readonly latencyMillis: number;
}

export type Report =
  /** Streams are open, appending begins. */
  | { readonly kind: 'appending'; readonly epoch: number }
  | { readonly kind: 'fence'; readonly progress: FenceProgress }
  | { readonly kind: 'recovered'; readonly summary: RecoverySummary }
  /** So many batches were accepted since the run began. */
  | { readonly kind: 'submitted'; readonly batches: number }
  | { readonly kind: 'ack'; readonly ack: AckReport }
  | { readonly kind: 'closed' }
  | { readonly kind: 'failed'; readonly error: Record<string, unknown> };

const ACK_FIELDS = [
  'run',
  'producer',
  'batch',
  'stream',
  'start',
  'startTimestamp',
  'end',
  'endTimestamp',
  'checksum',
  'bodyBytes',
  'latencyMillis',
] as const satisfies readonly (keyof AckReport)[];

/** Acknowledgements are many, so they travel as arrays of numbers; everything else as objects. */
export function encodeReport(report: Report): string {
  if (report.kind !== 'ack') return `${JSON.stringify(report)}\n`;
  return `[${ACK_FIELDS.map((field) => report.ack[field]).join(',')}]\n`;
}

export function decodeReport(line: string): Report {
  const value = JSON.parse(line) as Report | number[];
  if (!Array.isArray(value)) return value;
  const ack = Object.fromEntries(ACK_FIELDS.map((field, at) => [field, value[at]!]));
  return { kind: 'ack', ack: ack as unknown as AckReport };
}
