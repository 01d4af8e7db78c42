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

export interface StormConfig {
  readonly seed: number;
  readonly buckets: number;
  readonly copies: number;
  readonly window: number;
  readonly stars: readonly string[];
  readonly streams: readonly string[];
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
  readonly settings: Omit<EngineSettings, 'star'>;
}

export function stormConfig(seed: number): StormConfig {
  const prng = new Prng(seed);
  const quorum = QUORUMS[seed % QUORUMS.length]!;
  const window = WINDOWS[Math.floor(seed / QUORUMS.length) % WINDOWS.length]!;
  const storageClass = prng.pick(['express', 'express', 'standard'] as const);
  return {
    seed,
    ...quorum,
    window,
    stars: ['a', 'b', 'c'].slice(0, 2 + prng.below(2)),
    streams: ['s0', 's1', 's2', 's3', 's4'].slice(0, 2 + prng.below(4)),
    clients: 3 + prng.below(4),
    depth: prng.pick([1, 3, 8]),
    thinkMillis: prng.pick([5, 20, 80]),
    millis: 12_000 + prng.below(18_000),
    bucketProfile: prng.chance(0.75) ? ROUGH_BUCKETS : CALM_BUCKETS,
    metaProfile: prng.chance(0.75) ? ROUGH_METASTORE : CALM_METASTORE,
    blindToLeases: prng.chance(0.25),
    strokeMillis: prng.pick([300, 800, 2_000]),
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
      sessionTimeoutMillis: 2_000,
      supersede: prng.chance(0.2),
      computeThreads: 0,
    },
  };
}

export function settingsOf(config: StormConfig, star: string): ResolvedSettings {
  return resolveSettings({ ...config.settings, star }, config.buckets);
}
