import { EngineError, type ErrorKind } from '../lib/errors.ts';

/** Every exit code of the command line. `--help` and docs/operating.md print this table. */
export const EXIT_CODES = {
  ok: { code: 0, meaning: 'done; what was checked is in order' },
  failed: { code: 1, meaning: 'damage, loss or a bug was found, or output could not be written' },
  usage: { code: 2, meaning: 'bad usage or bad input; fix the call, nothing was written for it' },
  conflict: {
    code: 3,
    meaning: 'the state does not allow it, for example no such stream; look, then decide',
  },
  unavailable: {
    code: 4,
    meaning: 'not now, for example the star is in use; the same call may succeed later',
  },
  interrupted: { code: 130, meaning: 'stopped by SIGINT; what was acknowledged stays durable' },
  terminated: { code: 143, meaning: 'stopped by SIGTERM; what was acknowledged stays durable' },
} as const;

export type ExitName = keyof typeof EXIT_CODES;

const EXIT_OF_KIND: Record<ErrorKind, ExitName> = {
  invalid: 'usage',
  conflict: 'conflict',
  fenced: 'unavailable',
  unavailable: 'unavailable',
  undecided: 'unavailable',
  corrupt: 'failed',
  closed: 'failed',
  cancelled: 'interrupted',
  internal: 'failed',
};

/** The exit code of a command that ended with this error. */
export function exitCodeOf(error: unknown): number {
  const name = EngineError.is(error) ? EXIT_OF_KIND[error.kind] : 'failed';
  return EXIT_CODES[name].code;
}

/** The table as lines of text, for help pages. */
export function exitCodeLines(): string[] {
  return Object.values(EXIT_CODES).map(
    ({ code, meaning }) => `  ${code.toString().padStart(3)}  ${meaning}`,
  );
}
