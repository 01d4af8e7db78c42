import { randomBytes } from 'node:crypto';
import { EngineError } from '../../lib/errors.ts';
import type { BucketStore, CallOptions, ProbeOutcome } from '../../ports/bucket-store.ts';
import type { Health } from './health.ts';

const ROUNDS = 3;
const RACERS = 8;

/**
 * Tries out what the bucket's promise rests on: of several creations of one key at once exactly one
 * wins, the others see the winner's bytes, names survive their sync. Leaves no object behind.
 */
export async function probeDirectory(
  store: BucketStore,
  health: Health,
  options: CallOptions | undefined,
): Promise<ProbeOutcome> {
  const run = randomBytes(8).toString('hex');
  const keys = Array.from({ length: ROUNDS }, (_, round) => `probe/${run}.${round}`);
  try {
    for (const key of keys) {
      const outcome = await race(store, key, options);
      if (outcome.kind === 'accepted') continue;
      // Directories that cannot be synced are no place for a bucket, whatever the reason.
      return health.failure === undefined
        ? outcome
        : refused(health.failure.message, outcome.cause);
    }
    return { kind: 'accepted' };
  } finally {
    await store.deleteMany(keys);
  }
}

async function race(
  store: BucketStore,
  key: string,
  options: CallOptions | undefined,
): Promise<ProbeOutcome> {
  const bodies = Array.from({ length: RACERS }, (_, racer) => Buffer.from(`${key} ${racer}`));
  const outcomes = await Promise.all(bodies.map((body) => store.createOnly(key, body, options)));
  let winner: Uint8Array | undefined;
  for (const [racer, outcome] of outcomes.entries()) {
    if (outcome.kind === 'unknown' || outcome.kind === 'refused') return outcome;
    if (outcome.kind !== 'created') continue;
    if (winner !== undefined) return refused('several creations of one key succeeded');
    winner = bodies[racer]!;
  }
  if (winner === undefined) return refused('no creation of a fresh key succeeded');
  const late = await store.createOnly(key, Buffer.from('too late'), options);
  for (const outcome of [...outcomes, late]) {
    if (outcome.kind === 'unknown' || outcome.kind === 'refused') return outcome;
    if (outcome.kind === 'exists' && Buffer.compare(outcome.head, winner) !== 0) {
      return refused('an object is not what its creator wrote');
    }
  }
  if (late.kind === 'created') return refused('an object was created twice');
  const found = await store.readHead(key, winner.byteLength, { ...options, evidence: true });
  if (found.kind === 'unknown') return found;
  if (found.kind === 'found' && Buffer.compare(found.bytes, winner) === 0) {
    return { kind: 'accepted' };
  }
  return refused('a created object cannot be read');
}

function refused(reason: string, cause?: EngineError): ProbeOutcome {
  const error = new EngineError('BUCKET_REFUSED', `bucket directory does not qualify: ${reason}`, {
    cause,
  });
  return { kind: 'refused', cause: error };
}
