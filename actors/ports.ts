import type { Clock } from '../src/lib/clock.ts';
import type { Metrics } from '../src/lib/metrics.ts';
import type { Random } from '../src/lib/random.ts';
import type { RoundTripMeter } from '../src/lib/round-trips.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import type { Compute } from '../src/ports/compute.ts';
import type { Log } from '../src/ports/log.ts';
import type { Metastore } from '../src/ports/metastore.ts';
import type { Processes } from '../src/ports/processes.ts';

/** Everything the actors of one star touch of the outside world. */
export interface StarPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly metastore: Metastore;
  readonly compute: Compute;
  readonly processes: Processes;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Counts round trips of takeovers, where that is wanted. */
  readonly roundTrips?: RoundTripMeter;
  /** The buckets of the set that new epochs use, in order. */
  readonly buckets: readonly BucketStore[];
  /** A bucket of an earlier set by the name its set record gives; undefined when it is not configured any more. */
  bucketByName(name: string): BucketStore | undefined;
}
