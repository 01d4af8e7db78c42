/** What one seed stands for: the shape of the world, the settings of its engines and the faults. */
import { Prng } from '../../src/lib/prng.ts';
import { resolveSettings, type EngineSettings } from '../../src/protocol/settings.ts';
import type { ResolvedSettings } from '../../src/protocol/settings.ts';
import {
  CALM_BUCKETS,
  ROUGH_BUCKETS,
  type BucketFaultProfile,
} from '../../src/testing/bucket-fates.ts';
import {
  CALM_METASTORE,
  ROUGH_METASTORE,
  type MetaFaultProfile,
} from '../../src/testing/meta-fates.ts';

/** Shapes in turn, so that any twelve seeds in a row see all of them. */
const QUORUMS = [
  { buckets: 1, copies: 1 },
  { buckets: 3, copies: 2 },
  { buckets: 3, copies: 3 },
  { buckets: 5, copies: 3 },
] as const;
const WINDOWS = [1, 4, 16] as const;

/** What a seed does besides appending, reading and asking for tails. Several at once, never all. */
export const FEATURES = [
  'handoff',
  'drain',
  'delete',
  'trim',
  'tokens',
  'match',
  'roll',
  /** W, P and the storage class change at a restart. */
  'reconfigure',
  /** Engines forward to each other. */
  'peers',
  /** Readers follow the tail. */
  'live',
  /** Somebody releases streams by force. */
  'operator',
  /** Somebody ends the lease records of the living. */
  'leaseEnds',
  /** Bits flip in single copies. */
  'bitFlips',
] as const;
export type Feature = (typeof FEATURES)[number];

export interface StormConfig {
  readonly seed: number;
  readonly buckets: number;
  readonly copies: number;
  readonly window: number;
  readonly stars: readonly string[];
  readonly streams: readonly string[];
  readonly features: ReadonlySet<Feature>;
  readonly clients: number;
  readonly depth: number;
  readonly thinkMillis: number;
  readonly millis: number;
  readonly bucketProfile: BucketFaultProfile;
  readonly metaProfile: MetaFaultProfile;
  /** Every star takes all others for dead. */
  readonly blindToLeases: boolean;
  /** Mean time between two strokes of chaos. */
  readonly strokeMillis: number;
  /** How long the world rests in the end; past a minute what is late arrives, too. */
  readonly restMillis: number;
  readonly settings: Omit<EngineSettings, 'star'>;
}

export function stormConfig(seed: number): StormConfig {
  const prng = new Prng(seed);
  const quorum = QUORUMS[seed % QUORUMS.length]!;
  const window = WINDOWS[Math.floor(seed / QUORUMS.length) % WINDOWS.length]!;
  const storageClass = prng.pick(['express', 'express', 'standard'] as const);
  const features = new Set(FEATURES.filter(() => prng.chance(0.35)));
  // Now and then a writer at full speed, which a fence has to outrun.
  const isHot = prng.chance(0.08);
  return {
    seed,
    ...quorum,
    window,
    stars: ['a', 'b', 'c'].slice(0, 2 + prng.below(2)),
    streams: ['s0', 's1', 's2', 's3'].slice(0, 1 + prng.below(4)),
    features,
    clients: isHot ? 5 : 2 + prng.below(3),
    depth: isHot ? 6 : prng.pick([1, 3, 6]),
    thinkMillis: isHot ? 1 : prng.pick([10, 40, 120]),
    millis: isHot ? 3_000 : 4_000 + prng.below(6_000),
    bucketProfile: prng.chance(0.75) ? ROUGH_BUCKETS : CALM_BUCKETS,
    metaProfile: prng.chance(0.75) ? ROUGH_METASTORE : CALM_METASTORE,
    blindToLeases: isHot || prng.chance(0.25),
    strokeMillis: prng.pick([200, 500, 1_200]),
    restMillis: prng.chance(0.1) ? 75_000 : 5_000,
    settings: {
      copyQuorum: quorum.copies,
      window,
      storageClass,
      flightBytes: 4_096,
      poolBytes: 4 * 1024 * 1024,
      lingerMillis: prng.pick([0, 3, 20]),
      checkpointLagSlots: prng.pick([16, 64, 4_096]),
      absorbBytes: prng.pick([200, 2_000, 100_000]),
      absorbMillis: prng.pick([200, 1_000, 5_000]),
      collectMillis: prng.pick([1_000, 60_000]),
      sessionTimeoutMillis: 2_000,
      supersede: prng.chance(0.2),
      computeThreads: 0,
    },
  };
}

export function settingsOf(config: StormConfig, star: string): ResolvedSettings {
  return resolveSettings({ ...config.settings, star }, config.buckets);
}

/** Another W, P and storage class, as an operator may choose them for a restart. */
export function changedSettings(config: StormConfig, star: string, prng: Prng): ResolvedSettings {
  const { buckets, settings } = config;
  const majority = Math.floor(buckets / 2) + 1;
  const changed = {
    copyQuorum: majority + prng.below(buckets - majority + 1),
    window: prng.pick(WINDOWS),
    storageClass: prng.pick(['express', 'standard'] as const),
  };
  return resolveSettings({ ...settings, ...changed, star }, buckets);
}
