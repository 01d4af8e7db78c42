/** What a stream answers when it does not do what was asked. */
import { EngineError } from '../src/lib/errors.ts';
import { retryHeldAfterMillis } from '../src/protocol/lease.ts';
import type { Tenure } from '../src/protocol/records.ts';
import type { StarHolder } from './star-observer.ts';

export function notFoundError(name: string): EngineError {
  return new EngineError('STREAM_NOT_FOUND', 'no stream has this name', { details: { name } });
}

export function changedError(name: string): EngineError {
  return new EngineError('INVALID_RECORD', 'a record changed while it was appended', {
    details: { stream: name },
  });
}

/** @param by - the tenure that was found instead, as far as it is known. */
export function movedError(name: string, by?: Tenure): EngineError {
  return new EngineError('FENCED', 'another star leads this stream by now: open it again', {
    details: { stream: name, star: by?.star, epoch: by?.epoch },
  });
}

/** The refusal of the open gate: retryable, names who leads and when to ask again. */
export function heldError(name: string, tenure: Tenure, holder: StarHolder): EngineError {
  const { star, epoch, incarnation } = tenure;
  return new EngineError('STREAM_HELD', 'another star leads this stream', {
    details: { name, star, epoch, address: holder.lease.address, incarnation },
    retryAfterMillis: retryHeldAfterMillis(holder.endsInMillis),
  });
}

export function droppedError(name: string): EngineError {
  return new EngineError('FENCED', 'a batch of this stream was dropped: open it again', {
    details: { stream: name },
  });
}

export function closedStreamError(name: string): EngineError {
  return new EngineError('CLOSED', 'the stream was closed', { details: { stream: name } });
}

export function deletedError(name: string): EngineError {
  return new EngineError('STREAM_DELETED', 'the stream was deleted while it was used', {
    details: { stream: name },
  });
}

export function supersededError(name: string, token: string, given?: string): EngineError {
  return new EngineError('FENCING_TOKEN_MISMATCH', 'a newer fencing token ended this handle', {
    details: { stream: name, fencingToken: token, given },
  });
}

/** Nothing was appended, and nobody knows whether it should have been. */
export function unconfirmedError(name: string, cause: EngineError): EngineError {
  return new EngineError(
    'REJECTION_UNCONFIRMED',
    'a condition failed against a state that did not become durable here: open the stream and try again',
    { details: { stream: name, because: cause.code }, cause, retryAfterMillis: 100 },
  );
}
