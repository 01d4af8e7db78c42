/**
 * What a writer process tells its parent, as lines of JSON on a pipe of its own. The pipe outlives a
 * SIGKILL of the writer: whatever was written into it before is still read.
 */
import { EngineError } from '../../lib/errors.ts';
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

const KINDS: readonly Report['kind'][] = [
  'appending',
  'fence',
  'recovered',
  'submitted',
  'closed',
  'failed',
];

/** @throws EngineError INTERNAL for a line that no writer writes. */
export function decodeReport(line: string): Report {
  const value = parseReport(line);
  if (!Array.isArray(value)) return reportOf<Report>(value, KINDS, line);
  const numbers: readonly unknown[] = value;
  if (numbers.length !== ACK_FIELDS.length || !numbers.every(Number.isFinite)) throw noReport(line);
  const ack = Object.fromEntries(ACK_FIELDS.map((field, at) => [field, numbers[at]]));
  return { kind: 'ack', ack: ack as unknown as AckReport };
}

export function parseReport(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw noReport(line, cause);
  }
}

/** The value, if it is of one of the kinds; the two programs are one, so its fields are not asked. */
export function reportOf<T extends { readonly kind: string }>(
  value: unknown,
  kinds: readonly T['kind'][],
  line: string,
): T {
  const kind: unknown =
    typeof value === 'object' && value !== null && Object.hasOwn(value, 'kind')
      ? (value as { kind: unknown }).kind
      : undefined;
  if (!kinds.includes(kind as T['kind'])) throw noReport(line);
  return value as T;
}

function noReport(line: string, cause?: unknown): EngineError {
  return new EngineError('INTERNAL', 'a process reported what makes no sense', {
    cause,
    details: { line },
  });
}
