/** What one seed stands for: the shape of the world, its engines, its clients and its faults. */
import { Prng } from '../../src/lib/prng.ts';
import {
  resolveSettings,
  type EngineSettings,
  type ResolvedSettings,
} from '../../src/protocol/settings.ts';
import { CALM_BUCKETS, ROUGH_BUCKETS } from '../../src/testing/bucket-fates.ts';
import { CALM_METASTORE, ROUGH_METASTORE } from '../../src/testing/meta-fates.ts';
import { WORKFLOWS } from './workflow.ts';

/** How much clients do, whatever the seed. */
export interface Load {
  /** Clients of each stream. */
  readonly clients: number;
  /** Operations of each client. */
  readonly operations: number;
}

const QUORUMS = [
  { buckets: 3, copies: 2 },
  { buckets: 1, copies: 1 },
  { buckets: 3, copies: 3 },
  { buckets: 5, copies: 3 },
] as const;

export type SimulationConfig = ReturnType<typeof simulationConfig>;

export function simulationConfig(seed: number) {
  const prng = new Prng(seed);
  const quorum = QUORUMS[seed % QUORUMS.length]!;
  const settings: Omit<EngineSettings, 'star'> = {
    copyQuorum: quorum.copies,
    window: prng.pick([1, 4, 16]),
    storageClass: prng.pick(['express', 'express', 'standard'] as const),
    flightBytes: 4_096,
    poolBytes: 4 * 1024 * 1024,
    lingerMillis: prng.pick([0, 3, 20]),
    checkpointLagSlots: prng.pick([16, 64, 4_096]),
    absorbBytes: prng.pick([200, 2_000, 100_000]),
    absorbMillis: prng.pick([200, 1_000, 5_000]),
    sessionTimeoutMillis: 2_000,
    supersede: prng.chance(0.2),
    computeThreads: 0,
  };
  return {
    seed,
    buckets: quorum.buckets,
    settings,
    workflow: WORKFLOWS[Math.floor(seed / QUORUMS.length) % WORKFLOWS.length]!,
    stars: ['a', 'b', 'c'].slice(0, 2 + prng.below(2)),
    streams: ['s0', 's1'].slice(0, 1 + prng.below(2)),
    /** Engines forward to each other. */
    forwards: prng.chance(0.5),
    /** Every star takes all others for dead: leadership moves with every open. */
    blindToLeases: prng.chance(0.3),
    bucketProfile: prng.chance(0.6) ? ROUGH_BUCKETS : CALM_BUCKETS,
    metaProfile: prng.chance(0.6) ? ROUGH_METASTORE : CALM_METASTORE,
    thinkMillis: prng.pick([5, 50, 200]),
    misfortuneMillis: prng.pick([200, 600, 2_000]),
  };
}

export function settingsOf(
  { settings, buckets }: SimulationConfig,
  star: string,
): ResolvedSettings {
  return resolveSettings({ ...settings, star }, buckets);
}
