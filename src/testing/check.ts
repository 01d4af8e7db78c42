/** What tests hand in wrongly, refused where it is handed in: taken silently, it would test nothing. */
import { EngineError } from '../lib/errors.ts';

/** @throws EngineError `INVALID_OPTION` when it is no name, for example the process itself. */
export function assertProcessName(name: unknown): void {
  if (typeof name === 'string') return;
  throw new EngineError('INVALID_OPTION', 'a process is meant by its name: process.name', {
    details: { got: typeof name },
  });
}

/** @throws EngineError `INVALID_OPTION` when no call can have such a fate. */
export function assertFateKind(kind: unknown, known: readonly string[]): void {
  if (known.includes(kind as string)) return;
  throw new EngineError('INVALID_OPTION', 'there is no such fate of a call', {
    details: { kind: String(kind), known: known.join(', ') },
  });
}

/** @throws EngineError `INVALID_OPTION` when it is no whole number. */
export function assertSeed(seed: unknown): void {
  if (Number.isSafeInteger(seed)) return;
  throw new EngineError('INVALID_OPTION', 'a seed is a whole number', {
    details: { seed: String(seed) },
  });
}
