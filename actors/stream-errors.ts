/** What a stream answers when it does not do what was asked. */
import { EngineError } from '../src/lib/errors.ts';

export function changedError(name: string): EngineError {
  return new EngineError('INVALID_RECORD', 'a record changed while it was appended', {
    details: { stream: name },
  });
}

export function movedError(name: string): EngineError {
  return new EngineError('FENCED', 'another star leads this stream by now: open it again', {
    details: { stream: name },
  });
}
