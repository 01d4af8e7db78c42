/** Turns what LMDB and the file system say into coded errors. */
import { EngineError } from '../../lib/errors.ts';
import type { ErrorCode } from '../../lib/errors.ts';

/** Codes of LMDB that mean the file's bytes are wrong. */
const CORRUPT_CODES: ReadonlySet<unknown> = new Set<unknown>([
  -30797, // MDB_PAGE_NOTFOUND
  -30796, // MDB_CORRUPTED
  -30794, // MDB_VERSION_MISMATCH
  -30793, // MDB_INVALID
  -30784, // MDB_INCOMPATIBLE
]);

export function lmdbError(cause: unknown, summary: string, path: string): EngineError {
  if (EngineError.is(cause)) return cause;
  const reason = (cause as { code?: string | number } | null)?.code;
  const code = codeFor(reason);
  return new EngineError(code, summary, {
    cause,
    details: { path, ...(reason === undefined ? {} : { reason: String(reason) }) },
  });
}

function codeFor(reason: string | number | undefined): ErrorCode {
  if (CORRUPT_CODES.has(reason)) return 'METASTORE_CORRUPT';
  // A file where a directory is meant: waiting does not help.
  return reason === 'ENOTDIR' ? 'INVALID_OPTION' : 'METASTORE_UNAVAILABLE';
}

export function closedError(): EngineError {
  return new EngineError('CLOSED', 'the metastore is closed');
}

export function corruptFile(path: string, problem: string): EngineError {
  return new EngineError('METASTORE_CORRUPT', 'the file is not a sound metastore', {
    details: { path, problem },
  });
}
