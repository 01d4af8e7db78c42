/** What may happen to one call of the metastore. */
import type { Prng } from '../lib/prng.ts';
import type { MetaVersion } from '../ports/metastore.ts';
import type { Gate, MatchedCall } from './fault-script.ts';
import { drawLatency, drawOutcome, type Latency } from './latency.ts';

/** Calls of the port that faults befall; watches have a profile of their own. */
export type MetaOp = 'get' | 'put' | 'delete' | 'floor' | 'lastChild' | 'children' | 'barrier';

/** One call, as rules and observers see it; `expected` is the version it names as its condition. */
export interface MetaCall extends MatchedCall {
  readonly op: MetaOp;
  readonly expected?: MetaVersion | undefined;
  readonly serial: number;
}

/** What happens to one call, at the metastore and for its caller. */
export type MetaFate =
  | {
      readonly kind: 'pass';
      readonly requestMillis?: number;
      readonly responseMillis?: number;
      readonly requestGate?: Gate;
      readonly responseGate?: Gate;
      /** A read answers what held this long ago, as far as the port lets it. */
      readonly staleMillis?: number;
    }
  /** Not applied and never will be; the caller hears so. */
  | { readonly kind: 'unavailable' }
  /** The caller hears nothing; a write is applied at once. */
  | { readonly kind: 'lost-response' }
  /** The caller hears nothing; a write is applied under the same condition long after. */
  | { readonly kind: 'late'; readonly afterMillis: number }
  /** The caller hears nothing, and nothing is applied. */
  | { readonly kind: 'never' };

/** Latencies and odds of the calls that no rule decides. */
export interface MetaFaultProfile {
  readonly request: Latency;
  readonly response: Latency;
  /** How long after the time-out a write that was thought lost is applied. */
  readonly late: Latency;
  readonly timeoutMillis: number;
  readonly writes: Readonly<Partial<Record<Exclude<MetaFate['kind'], 'pass'>, number>>>;
  /** Share of reads that fail. */
  readonly readErrors: number;
  /** Share of reads that answer an older state, and how old it may be. */
  readonly staleReads: number;
  readonly staleMillis: number;
  readonly watch: Latency;
  /** Share of watch events that are lost; a resync follows within `resyncMillis`. */
  readonly watchLosses: number;
  readonly resyncMillis: number;
  /** Share of requests under way that are lost when the caller dies. */
  readonly cutOff: number;
}

/** No faults, answers in a few milliseconds. */
export const CALM_METASTORE: MetaFaultProfile = {
  request: { minMillis: 0.5, spreadMillis: 2 },
  response: { minMillis: 0.5, spreadMillis: 2 },
  late: { minMillis: 1_000, spreadMillis: 60_000 },
  timeoutMillis: 5_000,
  writes: {},
  readErrors: 0,
  staleReads: 0,
  staleMillis: 0,
  watch: { minMillis: 1, spreadMillis: 4 },
  watchLosses: 0,
  resyncMillis: 2_000,
  cutOff: 0.5,
};

/** Every fault now and then, as seen on real clusters. */
export const ROUGH_METASTORE: MetaFaultProfile = {
  request: { minMillis: 0.5, spreadMillis: 4, tailChance: 0.05, tailMillis: 300 },
  response: { minMillis: 0.5, spreadMillis: 4, tailChance: 0.05, tailMillis: 300 },
  late: { minMillis: 10, spreadMillis: 5_000, tailChance: 0.3, tailMillis: 60_000 },
  timeoutMillis: 1_500,
  writes: { unavailable: 0.02, 'lost-response': 0.02, late: 0.02, never: 0.01 },
  readErrors: 0.02,
  staleReads: 0.1,
  staleMillis: 20_000,
  watch: { minMillis: 1, spreadMillis: 10, tailChance: 0.05, tailMillis: 2_000 },
  watchLosses: 0.1,
  resyncMillis: 5_000,
  cutOff: 0.4,
};

/** Their kinds. */
export const META_FATES = Object.keys({
  pass: true,
  unavailable: true,
  'lost-response': true,
  late: true,
  never: true,
} satisfies Record<MetaFate['kind'], true>);

/** Draws the fate of a call from the profile. */
export function drawMetaFate(prng: Prng, profile: MetaFaultProfile, op: MetaOp): MetaFate {
  if (op === 'put' || op === 'delete') {
    const kind = drawOutcome(prng, profile.writes);
    if (kind === undefined) return { kind: 'pass' };
    if (kind !== 'late') return { kind };
    return { kind, afterMillis: drawLatency(prng, profile.late) };
  }
  if (prng.chance(profile.readErrors)) return { kind: 'unavailable' };
  if (op === 'barrier' || !prng.chance(profile.staleReads)) return { kind: 'pass' };
  return { kind: 'pass', staleMillis: profile.staleMillis * prng.fraction() };
}
