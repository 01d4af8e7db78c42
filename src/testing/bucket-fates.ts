/** What may happen to one call of a bucket. */
import type { Prng } from '../lib/prng.ts';
import type { Gate, MatchedCall } from './fault-script.ts';
import { drawLatency, drawOutcome, type Latency } from './latency.ts';

/** Calls of the port that faults befall; `close` has none. */
export type BucketOp =
  'createOnly' | 'readHead' | 'readRange' | 'delete' | 'deleteMany' | 'list' | 'probe';

/** One call, as rules and observers see it. */
export interface BucketCall extends MatchedCall {
  readonly op: BucketOp;
  /** Calls are numbered in the order in which they were made. */
  readonly serial: number;
}

/** What happens to one call, at the store and for its caller. */
export type BucketFate =
  /** Reaches the store and answers; after the gates, when there are any. */
  | {
      readonly kind: 'pass';
      readonly requestMillis?: number;
      readonly responseMillis?: number;
      readonly requestGate?: Gate;
      readonly responseGate?: Gate;
    }
  /** Never reaches the store; the caller hears of a broken connection. */
  | { readonly kind: 'lost-request' }
  /** Reaches the store, but the caller hears of a broken connection. */
  | { readonly kind: 'lost-response' }
  /** Reaches the store only after the caller gave up. */
  | { readonly kind: 'late'; readonly afterMillis: number }
  /** Nothing is answered until the caller gives up; the store got it (`stored`) or not. */
  | { readonly kind: 'hang'; readonly stored?: boolean }
  /** The store answers an error: 409 and 429 without an effect, 5xx with one if `stored`. */
  | { readonly kind: 'error'; readonly status: number; readonly stored?: boolean }
  /** Full or forbidden until somebody helps: nothing was done, and of a read nothing is told. */
  | { readonly kind: 'refused' };

/** Fates that odds may draw; the last three are errors of the store: 409, 429 or 503, 500 though stored. */
export type BucketFateName = BucketFate['kind'] | 'conflict' | 'throttled' | 'error-stored';

/** Shares of 1 that each fate has of the calls; the rest passes. */
export type Shares = Readonly<Partial<Record<Exclude<BucketFateName, 'pass'>, number>>>;

/** Latencies and odds of the calls that no rule decides. */
export interface BucketFaultProfile {
  readonly request: Latency;
  readonly response: Latency;
  /** How long after the caller gave up a late request arrives. */
  readonly late: Latency;
  /** Adapters bound every attempt: a call that is not answered by then is unknown. */
  readonly timeoutMillis: number;
  /** Shares of 1 for calls that change something, and for those that read. */
  readonly writes: Shares;
  readonly reads: Shares;
  /** Share of the keys of one `deleteMany` that answer an error of their own. */
  readonly deleteErrors: number;
  /** Share of requests under way that are lost when the caller dies or gives up. */
  readonly cutOff: number;
}

/** No faults, answers in a few milliseconds. */
export const CALM_BUCKETS: BucketFaultProfile = {
  request: { minMillis: 1, spreadMillis: 4 },
  response: { minMillis: 1, spreadMillis: 4 },
  late: { minMillis: 1_000, spreadMillis: 10_000 },
  timeoutMillis: 5_000,
  writes: {},
  reads: {},
  deleteErrors: 0,
  cutOff: 0.5,
};

/** Every fault now and then; most calls still succeed. */
export const ROUGH_BUCKETS: BucketFaultProfile = {
  request: { minMillis: 1, spreadMillis: 8, tailChance: 0.05, tailMillis: 400 },
  response: { minMillis: 1, spreadMillis: 8, tailChance: 0.05, tailMillis: 400 },
  late: { minMillis: 10, spreadMillis: 4_000, tailChance: 0.2, tailMillis: 600_000 },
  timeoutMillis: 2_000,
  writes: {
    'lost-request': 0.015,
    'lost-response': 0.02,
    late: 0.02,
    hang: 0.005,
    error: 0.01,
    'error-stored': 0.005,
    conflict: 0.01,
    throttled: 0.01,
    refused: 0.002,
  },
  reads: { 'lost-request': 0.02, hang: 0.005, error: 0.02, throttled: 0.01 },
  deleteErrors: 0.05,
  cutOff: 0.4,
};

/** Their kinds. */
export const BUCKET_FATES = Object.keys({
  pass: true,
  'lost-request': true,
  'lost-response': true,
  late: true,
  hang: true,
  error: true,
  refused: true,
} satisfies Record<BucketFate['kind'], true>);

/** Draws the fate of a call from the profile. */
export function drawBucketFate(prng: Prng, profile: BucketFaultProfile, op: BucketOp): BucketFate {
  const writes = op === 'createOnly' || op === 'delete' || op === 'deleteMany';
  const name = drawOutcome(prng, writes ? profile.writes : profile.reads);
  switch (name) {
    case undefined:
      return { kind: 'pass' };
    case 'late':
      return { kind: 'late', afterMillis: drawLatency(prng, profile.late) };
    case 'hang':
      return { kind: 'hang', stored: prng.chance(0.5) };
    case 'error':
      return { kind: 'error', status: prng.pick([500, 502, 503]) };
    case 'error-stored':
      return { kind: 'error', status: 500, stored: true };
    case 'conflict':
      return { kind: 'error', status: 409 };
    case 'throttled':
      return { kind: 'error', status: prng.pick([429, 503]) };
    case 'refused':
      // Rules refuse any call; by chance only creations are, since whoever reads ends with it, by design.
      return op === 'createOnly' ? { kind: 'refused' } : { kind: 'error', status: 403 };
    case 'lost-request':
    case 'lost-response':
      return { kind: name };
  }
}
