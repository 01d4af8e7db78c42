/** What a star answers when it does not do what was asked. */
import type { Clock } from '../src/lib/clock.ts';
import { EngineError } from '../src/lib/errors.ts';
import type { FenceActors } from './fence.actor.ts';

export function closedError(star: string): EngineError {
  return new EngineError('CLOSED', 'the engine was closed', { details: { star } });
}

export function leaseLostError(star: string, reason?: string): EngineError {
  return new EngineError('LEASE_LOST', 'the lease of this star was lost: open the engine again', {
    details: { star, reason },
  });
}

/** Handles of a star whose name another process took; what carries it was not appended. */
export function replacedError(star: string, cause: EngineError): EngineError {
  const { hostName, pid, incarnation } = cause.details;
  return new EngineError('FENCED', 'another process runs this star: open the stream there', {
    details: { star, hostName, pid, incarnation },
    cause,
  });
}

export function limboError(name: string): EngineError {
  return new EngineError(
    'STREAM_IN_LIMBO',
    'the last leadership of this stream is not released yet',
    { details: { name }, retryAfterMillis: 5_000 },
  );
}

export function drainingError(star: string): EngineError {
  return new EngineError('ENGINE_DRAINING', 'this engine gives its streams away: open elsewhere', {
    details: { star },
    retryAfterMillis: 1_000,
  });
}

export function handedOffError(name: string, star: string): EngineError {
  return new EngineError('STREAM_HELD', 'this stream was handed to another star', {
    details: { name, star },
    retryAfterMillis: 1_000,
  });
}

export function notLeadingError(name: string, star: string): EngineError {
  return new EngineError('NOT_LEADING', 'this engine does not lead the stream', {
    details: { name, star },
  });
}

export function abandonedError(abandonedStreams: number): EngineError {
  return new EngineError(
    'DEADLINE_EXCEEDED',
    'streams were abandoned: their next open settles them',
    { details: { abandonedStreams }, sideEffects: 'possible' },
  );
}

/** Why an open did not end in time, when a fence stands at a slot that nobody can decide. */
export function undecidedError(clock: Clock, fences: FenceActors): EngineError | undefined {
  const [undecided] = fences.undecided();
  if (undecided === undefined) return undefined;
  const { star, epoch, slot, buckets, sinceMillis, refusal } = undecided;
  return new EngineError('FENCE_UNDECIDED', 'buckets that do not answer hold the deciding vote', {
    cause: refusal,
    details: {
      star,
      epoch,
      slot,
      buckets: buckets.join(','),
      ageMillis: clock.now() - sinceMillis,
    },
  });
}
