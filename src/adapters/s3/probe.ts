import { randomBytes } from 'node:crypto';
import { setTimeout as sleepReal } from 'node:timers/promises';
import { EngineError } from '../../lib/errors.ts';
import type {
  BucketStore,
  CallOptions,
  CreateOutcome,
  ProbeOutcome,
} from '../../ports/bucket-store.ts';

const ROUNDS = 4;
const RACERS = 16;
const LATE_ATTEMPTS = 4;
const LATE_PAUSE_MILLIS = 1_100;

export interface ProbedStore extends Pick<BucketStore, 'createOnly' | 'readRange' | 'deleteMany'> {
  /** Names it in errors. */
  readonly name: string;
  readonly endpoint: string;
}

const ACCEPTED: ProbeOutcome = { kind: 'accepted' };

/**
 * Tries out what the bucket's promise rests on. Races, not only one creation after the other: several
 * servers check the condition first and store later, and let every racer of a moment win.
 */
export async function probeBucket(
  store: ProbedStore,
  options: CallOptions | undefined,
): Promise<ProbeOutcome> {
  const run = randomBytes(8).toString('hex');
  const keys = Array.from({ length: ROUNDS }, (_, round) => `probe/${run}.${round}`);
  let outcome: ProbeOutcome = ACCEPTED;
  for (const key of keys) {
    outcome = await race(store, key, options);
    if (outcome.kind !== 'accepted') break;
  }
  // Where nothing answers, nothing was stored, and waiting once more helps nobody.
  if (outcome.kind === 'unknown') return outcome;
  const removed = await store.deleteMany(keys, options);
  const failed = removed.find(({ kind }) => kind === 'unknown');
  return outcome.kind === 'accepted' && failed?.kind === 'unknown'
    ? because(failed.cause)
    : outcome;
}

async function race(
  store: ProbedStore,
  key: string,
  options: CallOptions | undefined,
): Promise<ProbeOutcome> {
  const bodies = Array.from({ length: RACERS }, (_, racer) => Buffer.from(`${key} ${racer} racer`));
  const outcomes = await Promise.all(bodies.map((body) => store.createOnly(key, body, options)));
  const winners = bodies.filter((_, racer) => outcomes[racer]!.kind === 'created');
  const failed = outcomes.find(({ kind }) => kind === 'refused' || kind === 'unknown');
  if (winners.length === 0) {
    return failed !== undefined && 'cause' in failed
      ? because(failed.cause)
      : refused(store, 'no creation of a fresh key succeeds');
  }
  const late = await createLate(store, key, options);
  if (late.kind === 'created') return refused(store, 'it ignores the condition of a creation');
  if (winners.length > 1) return refused(store, 'several racing creations of one key succeed');
  const winner = winners[0]!;
  // A loser may have been told only that there was a conflict; whoever came late knows.
  for (const outcome of [...outcomes, late]) {
    if (outcome.kind === 'exists' && Buffer.compare(outcome.head, winner) !== 0) {
      return refused(store, 'an object is not what its creator wrote');
    }
  }
  if (late.kind !== 'exists') return because(late.cause);
  return readBack(store, key, winner, options);
}

/** Several servers take one write of a key a second, and turn others away: they are asked again. */
async function createLate(
  store: ProbedStore,
  key: string,
  options: CallOptions | undefined,
): Promise<CreateOutcome> {
  for (let attempt = 1; ; attempt++) {
    const late = await store.createOnly(key, Buffer.from('too late'), options);
    const status = late.kind === 'unknown' ? Number(late.cause.details['status']) : 0;
    if (attempt === LATE_ATTEMPTS || (status !== 429 && status !== 503)) return late;
    // Cut short by the signal, after which the next attempt says that it was given up.
    await sleepReal(LATE_PAUSE_MILLIS, undefined, { ...options }).catch(() => undefined);
  }
}

async function readBack(
  store: ProbedStore,
  key: string,
  winner: Uint8Array,
  options: CallOptions | undefined,
): Promise<ProbeOutcome> {
  const found = await store.readRange(key, 3, 9, { ...options, evidence: true });
  if (found.kind === 'unknown') return because(found.cause);
  const isPart =
    found.kind === 'found' &&
    found.sizeBytes === winner.byteLength &&
    Buffer.compare(found.bytes, winner.subarray(3, 9)) === 0;
  return isPart ? ACCEPTED : refused(store, 'a part of an object cannot be read');
}

/** What needs somebody's help refuses the bucket; what may pass leaves it open. */
function because(cause: EngineError): ProbeOutcome {
  return { kind: cause.code === 'BUCKET_REFUSED' ? 'refused' : 'unknown', cause };
}

function refused({ name: bucket, endpoint }: ProbedStore, reason: string): ProbeOutcome {
  const summary = `bucket does not qualify: ${reason}`;
  const details = { bucket, endpoint, setting: 'endpoint' };
  return { kind: 'refused', cause: new EngineError('BUCKET_REFUSED', summary, { details }) };
}
