/**
 * What a member tells the parent, as lines of JSON. Times are milliseconds of the host's monotonic
 * clock, which all of its processes share.
 */
import { parseReport, reportOf, type AckReport } from '../load/reports.ts';

export interface TailReport {
  readonly stream: number;
  /** Before the question was asked. */
  readonly askedAt: number;
  readonly tail: number;
}

/** What the member's engine measured of the takeovers it did; milliseconds, the longest of each. */
export interface TakeoverFigures {
  readonly streams: number;
  readonly fenceMillis: number;
  readonly settleMillis: number;
  readonly openMillis: number;
  readonly roundTrips: number;
}

export type MemberReport =
  /** Every stream has a handle; appending begins. */
  | { readonly kind: 'appending'; readonly star: string }
  | { readonly kind: 'ack'; readonly at: number; readonly ack: AckReport }
  | ({ readonly kind: 'tail' } & TailReport)
  /** A try failed and is repeated. */
  | { readonly kind: 'retry'; readonly at: number; readonly code: string }
  /** A producer gave up. */
  | { readonly kind: 'gaveUp'; readonly producer: number; readonly code: string }
  /** The lease of another star was found to be over. */
  | { readonly kind: 'detected'; readonly at: number; readonly star: string }
  | { readonly kind: 'takeovers'; readonly figures: TakeoverFigures }
  | { readonly kind: 'closed' }
  | { readonly kind: 'failed'; readonly error: Record<string, unknown> };

export function encodeMemberReport(report: MemberReport): string {
  return `${JSON.stringify(report)}\n`;
}

const KINDS: readonly MemberReport['kind'][] = [
  'appending',
  'ack',
  'tail',
  'retry',
  'gaveUp',
  'detected',
  'takeovers',
  'closed',
  'failed',
];

/** @throws EngineError INTERNAL for a line that no member writes. */
export function decodeMemberReport(line: string): MemberReport {
  return reportOf<MemberReport>(parseReport(line), KINDS, line);
}

/** The same clock in every process of the host. */
export function hostMillis(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
