/** Standard output and standard error of one run: text for people, or JSON for programs. */
import { EngineError, toEngineError } from '../lib/errors.ts';
import { exitCodeOf } from './exit-codes.ts';
import { createTerminal, type Terminal, type TextSink } from './terminal.ts';

/** The part of a writable stream that results need. */
export interface ByteSink extends TextSink {
  write(data: string | Uint8Array): boolean;
  once(event: 'drain' | 'close', listener: () => void): unknown;
  off(event: 'drain' | 'close', listener: () => void): unknown;
  readonly destroyed: boolean;
}

export interface Output {
  readonly json: boolean;
  /** Results. With `json`, only documents go here. */
  readonly out: Terminal;
  /** Progress, notes and errors. */
  readonly err: Terminal;
  /** Writes results as they are; waits while the reader of the pipe is slow. */
  data(data: string | Uint8Array): Promise<void>;
  /** The one result of a command: a document with `--json`, else the lines. */
  result(document: object, lines: () => readonly string[]): void;
  note(text: string): void;
  fail(error: unknown): void;
}

export interface OutputOptions {
  readonly stdout: ByteSink;
  readonly stderr: TextSink;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly json: boolean;
}

export function createOutput({ stdout, stderr, env, json }: OutputOptions): Output {
  const out = createTerminal(stdout, env);
  const err = createTerminal(stderr, env);
  return {
    json,
    out,
    err,
    data: async (data) => {
      // After a broken pipe nobody reads; the command is being stopped already.
      if (stdout.destroyed || stdout.write(data)) return;
      await drained(stdout);
    },
    result: (document, lines) => {
      if (json) out.line(JSON.stringify(document));
      else for (const line of lines()) out.line(line);
    },
    note: (text) => {
      if (!json) err.line(text);
    },
    fail: (error) => {
      err.line(json ? JSON.stringify(errorDocument(error)) : errorLine(error, err));
    },
  };
}

function drained(stdout: ByteSink): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stdout.off('drain', done);
      stdout.off('close', done);
      resolve();
    };
    stdout.once('drain', done);
    stdout.once('close', done);
  });
}

/** One line: the code, what happened, and whether trying again can help. */
export function errorLine(error: unknown, terminal: Terminal): string {
  const { code, message, cause } = describe(error);
  const retry = EngineError.is(error) && error.retryable ? ' (retry later)' : '';
  const because = cause === undefined ? '' : `: ${oneLine(cause)}`;
  return `${terminal.paint.bad(`asterlog: ${code}`)} ${oneLine(message)}${because}${retry}`;
}

export function errorDocument(error: unknown): object {
  const known = toEngineError(error);
  const { cause } = describe(error);
  return {
    error: {
      ...known.toJSON(),
      ...(cause === undefined ? {} : { cause: oneLine(cause) }),
      exitCode: exitCodeOf(error),
    },
  };
}

/** An error from elsewhere is reported by its own text; a cause adds what the system said. */
function describe(error: unknown): { code: string; message: string; cause: string | undefined } {
  const known = toEngineError(error);
  const cause = known.cause;
  return {
    code: known.code,
    message: known.message,
    cause: cause instanceof Error ? cause.message : undefined,
  };
}

const oneLine = (text: string): string => text.replace(/\s*\n\s*/g, ' ');
