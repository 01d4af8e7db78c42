/** Plain numbers and flags of a star; loadable from a file, checked once when an engine is created. */
import * as v from 'valibot';
import { EngineError } from '../lib/errors.ts';
import { LIMITS } from './limits.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

function integer(min: number, max: number) {
  return v.pipe(v.number(), v.safeInteger(), v.minValue(min), v.maxValue(max));
}

const settingsSchema = v.strictObject({
  /** Names this engine's chain. One live engine a star. */
  star: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'must match [a-z0-9][a-z0-9._-]{0,62}'),
    ),
    'main',
  ),
  /** The name space of streams. */
  basin: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[a-z0-9][a-z0-9-]{0,46}[a-z0-9]$/, 'must be 2 to 48 of [a-z0-9-]'),
    ),
    'default',
  ),
  /** W: copies that make a flight durable. Default: a majority of the buckets. */
  copyQuorum: v.optional(integer(1, LIMITS.buckets)),
  /** P: slots assigned beyond the first unacknowledged one. */
  window: v.optional(integer(1, LIMITS.window), 16),
  storageClass: v.optional(v.picklist(['standard', 'express']), 'express'),
  /** A flight seals at this size, or earlier; an idle pipeline sends whatever there is. */
  flightBytes: v.optional(integer(4 * KIB, 16 * MIB), MIB),
  /** A flight seals at this age while others are under way; an idle pipeline seals at once. */
  lingerMillis: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(60_000)), 5),
  /** Bound of all payload memory: open, sealed, in flight, awaiting copies, cached for tail reads. */
  poolBytes: v.optional(integer(4 * MIB, 64 * 1024 * MIB), 256 * MIB),
  /** A slot is assigned at most this far beyond the checkpoint; bounds every restart and takeover. */
  checkpointLagSlots: v.optional(integer(16, 1_000_000), 4_096),
  /** A stream is absorbed when it holds this many unabsorbed bytes … */
  absorbBytes: v.optional(integer(1, 1024 * MIB), 4 * MIB),
  /** … or when its oldest unabsorbed record is this old. */
  absorbMillis: v.optional(integer(1, 3_600_000), 60_000),
  /** A lease record unchanged for 1.1 times this plus half a second is dead. */
  sessionTimeoutMillis: v.optional(integer(2_000, 600_000), 15_000),
  /** How often epochs of other chains that nobody opens are looked for, to settle and sweep them. */
  collectMillis: v.optional(integer(100, 86_400_000), 60_000),
  createStreamOnOpen: v.optional(v.boolean(), true),
  /** Replaces a live duplicate of this star at start instead of answering STAR_IN_USE. */
  supersede: v.optional(v.boolean(), false),
  /** Deadline of waits that the caller gave none, close included; reads have none; 0: no deadline. */
  defaultTimeoutMillis: v.optional(integer(0, 3_600_000), 30_000),
  /** Counts the round trips of takeovers (`takeover.roundTrips`); costs some speed. */
  meterRoundTrips: v.optional(v.boolean(), false),
  /** Checksums of what is read go to worker threads from this size on, hashes from 128 KiB on; 0 threads: never. */
  computeThreads: v.optional(integer(0, 16), 1),
  computeThresholdBytes: v.optional(integer(1, 1024 * MIB), MIB),
});

/** What a caller may pass. */
export type EngineSettings = v.InferInput<typeof settingsSchema>;

/** Settings with every default filled in. */
export type ResolvedSettings = Readonly<v.InferOutput<typeof settingsSchema>> & {
  readonly copyQuorum: number;
};

/** Defaults of every setting; `copyQuorum` depends on the number of buckets. */
export const DEFAULT_SETTINGS = Object.freeze(v.parse(settingsSchema, {}));

/**
 * Checks settings against the number of buckets and fills in the defaults.
 *
 * @throws EngineError INVALID_OPTION naming the option, its value and its bound.
 */
export function resolveSettings(input: unknown, bucketCount: number): ResolvedSettings {
  const parsed = v.safeParse(settingsSchema, input ?? {});
  if (!parsed.success) throw optionError('settings', parsed.issues[0]);
  const settings = parsed.output;
  const copyQuorum = settings.copyQuorum ?? Math.floor(bucketCount / 2) + 1;
  checkQuorum(copyQuorum, bucketCount, 'settings.copyQuorum');
  if (settings.poolBytes < 4 * settings.flightBytes) {
    throw new EngineError('INVALID_OPTION', 'poolBytes must hold at least four flights', {
      details: {
        option: 'settings.poolBytes',
        value: settings.poolBytes,
        min: 4 * settings.flightBytes,
      },
    });
  }
  return { ...settings, copyQuorum };
}

/** @throws EngineError INVALID_OPTION when W exceeds K. */
export function checkQuorum(copyQuorum: number, bucketCount: number, option: string): void {
  if (copyQuorum <= bucketCount) return;
  throw new EngineError('INVALID_OPTION', 'copyQuorum exceeds the number of buckets', {
    details: { option, value: copyQuorum, max: bucketCount },
  });
}

/** One coded error of the first thing wrong with an options object. */
export function optionError(root: string, issue: v.BaseIssue<unknown>): EngineError {
  const path = v.getDotPath(issue);
  // Of an unknown option the issue holds the name as its input; the value is in the path.
  const received = issue.type === 'strict_object' ? issue.path?.at(-1)?.value : issue.input;
  return new EngineError('INVALID_OPTION', 'an option is not valid', {
    details: {
      option: path === null ? root : `${root}.${path}`,
      value: printable(received),
      problem: issue.message,
      ...(typeof issue.requirement === 'number' ? { bound: issue.requirement } : {}),
    },
  });
}

function printable(value: unknown): string | number | boolean {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'string') return value;
  return value === null ? 'null' : typeof value;
}
