/**
 * Lease records of stars and readers: who is there, judged without trusting anybody's clock but
 * one's own monotonic one. No safety rule rests on a lease; it serves detection, addresses and the
 * refusal of a second live star of one name. Source: DESIGN "Sessions are lease records of our own".
 */
import * as v from 'valibot';
import { encodeRecordValue, parseRecordValue } from './records.ts';

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const hex = (bytes: number) => v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${bytes * 2}}$`)));

const processIdentity = v.strictObject({
  bootId: v.string(),
  hostName: v.string(),
  pidNamespace: v.string(),
  pid: count,
  startTime: v.string(),
});

/** `stars/<star>` and `readers/<id>` */
export const starLease = v.strictObject({
  /** Random, new after every loss. */
  incarnation: hex(16),
  /** Where peers reach the holder. */
  address: v.optional(v.string()),
  timeoutMillis: v.pipe(v.number(), v.safeInteger(), v.minValue(1)),
  /** Grows with every bump. */
  beat: count,
  /** The last round of the collector that the holder has acknowledged. */
  collectorRound: count,
  process: processIdentity,
  state: v.picklist(['held', 'ended']),
  attempt: hex(8),
});
export type StarLease = Readonly<v.InferOutput<typeof starLease>>;

export function encodeLease(lease: StarLease): Uint8Array {
  return encodeRecordValue(lease);
}

/** @throws EngineError METASTORE_CORRUPT naming the key */
export function parseLease(key: string, value: Uint8Array): StarLease {
  return parseRecordValue(starLease, key, value);
}

/** Bumps a timeout: four may be late or lost before the lease is. */
const BEATS_PER_TIMEOUT = 5;

export function nextBeatAfterMillis(timeoutMillis: number): number {
  return timeoutMillis / BEATS_PER_TIMEOUT;
}

/**
 * Whether the holder must count itself lost, for good: its last applied bump was *sent* this long
 * ago. Observers wait longer, so a holder knows before anybody ends its record.
 */
export function isLost(
  lastAppliedSentAt: number,
  nowMonotonic: number,
  timeoutMillis: number,
): boolean {
  return nowMonotonic - lastAppliedSentAt >= timeoutMillis;
}

/** How long a record must stay unchanged before anyone may end it. */
export function expiresAfterMillis(timeoutMillis: number): number {
  return timeoutMillis * 1.1 + 500;
}

/** How often an observer on the same host looks whether the process still exists. */
export const LOOK_EVERY_MILLIS = 250;

/** How often who waits for the end of a lease reads its record, should the watch have missed it. */
export const READ_EVERY_MILLIS = 5_000;

/** When a refused caller asks again, at the latest; at once when it hears that the holder is gone. */
const RETRY_HELD_MILLIS = 1_000;

/** When to ask again for a stream that a live star leads. */
export function retryHeldAfterMillis(endsInMillis: number): number {
  return Math.max(LOOK_EVERY_MILLIS, Math.min(RETRY_HELD_MILLIS, Math.ceil(endsInMillis)));
}

/** One record as seen over time by one observer. Versions are never reused: equal means unchanged. */
export interface LeaseObservation {
  readonly version: string | number;
  /** Own monotonic time of the first look that found this version. */
  readonly sinceMonotonic: number;
  /** How often the record was found changed, by whomever. */
  readonly changes: number;
}

export type LeaseStanding = 'live' | 'expired';

/**
 * Takes one more look into account. `expired` once the record was unchanged for its timeout, with
 * a margin, of the observer's own clock; the answer is only as good as the CAS that acts on it.
 */
export function observe(
  previous: LeaseObservation | undefined,
  seen: { readonly version: string | number; readonly lease: StarLease },
  nowMonotonic: number,
): { readonly observation: LeaseObservation; readonly standing: LeaseStanding } {
  if (previous?.version !== seen.version) {
    const changes = previous === undefined ? 0 : previous.changes + 1;
    const observation = { version: seen.version, sinceMonotonic: nowMonotonic, changes };
    return { observation, standing: 'live' };
  }
  const left = endsInMillis(previous, seen.lease, nowMonotonic);
  return { observation: previous, standing: left > 0 ? 'live' : 'expired' };
}

/** How long until the lease is expired, should it stay as it was seen. */
export function endsInMillis(
  observation: LeaseObservation,
  lease: StarLease,
  nowMonotonic: number,
): number {
  const unchangedMillis = nowMonotonic - observation.sinceMonotonic;
  return Math.max(0, expiresAfterMillis(lease.timeoutMillis) - unchangedMillis);
}

/** Whether what was seen came before what is known: reads may be old, events late. */
export function isOlder(seen: StarLease, known: StarLease): boolean {
  return seen.incarnation === known.incarnation && seen.beat < known.beat;
}

/** Whether two identities name one process: pids are reused, start times tell them apart. */
export function isSameProcess(a: StarLease['process'], b: StarLease['process']): boolean {
  return (
    a.bootId === b.bootId &&
    a.hostName === b.hostName &&
    a.pidNamespace === b.pidNamespace &&
    a.pid === b.pid &&
    a.startTime === b.startTime
  );
}

export interface RegistrationView {
  /** The record found, if any. */
  readonly current: StarLease | undefined;
  /**
   * What is known of the holder's process. `unknown` also for the process that asks: that it lives
   * does not tell whether the engine in it that held the lease still does; its beat does.
   */
  readonly process: 'alive' | 'dead' | 'unknown';
  readonly standing: LeaseStanding;
  /** The record changed while it was watched. */
  readonly changed: boolean;
}

export interface RegistrationOptions {
  /** Replace a live holder. At process start only, never after a loss. */
  readonly supersede: boolean;
  /** Incarnations that their owner, who is asking, has lost or given up. */
  readonly replaces: readonly string[];
}

export type RegistrationDecision = 'create' | 'replace' | 'in-use' | 'watch';

/** What a registering star does about the record it found; every write that follows is a CAS of it. */
export function judgeRegistration(
  view: RegistrationView,
  options: RegistrationOptions,
): RegistrationDecision {
  const { current } = view;
  if (current === undefined) return 'create';
  if (current.state === 'ended') return 'replace';
  if (options.supersede || options.replaces.includes(current.incarnation)) return 'replace';
  if (view.process === 'dead') return 'replace';
  if (view.process === 'alive' || view.changed) return 'in-use';
  return view.standing === 'expired' ? 'replace' : 'watch';
}

/** What an observer does about a held record: `end` it by CAS, or `leave` it. */
export function judgeHolder(
  process: 'alive' | 'dead' | 'unknown',
  standing: LeaseStanding,
): 'end' | 'leave' {
  return process === 'dead' || standing === 'expired' ? 'end' : 'leave';
}

/** The lease that follows a bump; whoever writes it puts its own attempt in. */
export function bumped(lease: StarLease, collectorRound: number): StarLease {
  return { ...lease, beat: lease.beat + 1, collectorRound };
}

/** The lease as anybody ends it; whoever writes it puts its own attempt in. */
export function ended(lease: StarLease): StarLease {
  return { ...lease, state: 'ended' };
}

export interface LeaseHolder {
  readonly incarnation: string;
  readonly address?: string | undefined;
  readonly timeoutMillis: number;
  readonly process: StarLease['process'];
}

/** The first record of an incarnation. */
export function firstLease(holder: LeaseHolder, attempt: string): StarLease {
  const { incarnation, address, timeoutMillis, process } = holder;
  return {
    incarnation,
    ...(address === undefined ? {} : { address }),
    timeoutMillis,
    beat: 0,
    collectorRound: 0,
    process,
    state: 'held',
    attempt,
  };
}
