/** What every command gets: the streams of the process, the way to engines, the wish to stop. */
import type { Command } from 'commander';
import type { Readable } from 'node:stream';
import type { Engine, ReadOnlyEngine } from '../engine/api.ts';
import type { Log } from '../ports/log.ts';
import { requireRoot } from './components.ts';
import { createOutput, type ByteSink, type Output } from './output.ts';
import type { Shutdown } from './shutdown.ts';
import type { EngineDoor, OpenHooks, StoreOptions, WriterOptions } from './store.ts';
import type { TextSink } from './terminal.ts';

export interface Context {
  readonly door: EngineDoor;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: ByteSink;
  readonly stderr: TextSink;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly shutdown: Shutdown;
  /** Sets the exit code of a run that ends without an error. */
  readonly setExit: (code: number) => void;
}

export interface CommonOptions {
  readonly json?: boolean;
  readonly verbose?: boolean;
}

export function addCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print JSON for programs instead of text')
    .option('--verbose', 'log what the engine does to standard error');
}

export function outputOf(context: Context, options: CommonOptions): Output {
  const { stdout, stderr, env } = context;
  return createOutput({ stdout, stderr, env, json: options.json === true });
}

/** Opens an engine, lets `use` work with it, and releases everything in an orderly way. */
export async function withEngine<T>(
  context: Context,
  options: WriterOptions & CommonOptions,
  hooks: OpenHooks,
  use: (engine: Engine) => Promise<T>,
): Promise<T> {
  const log = options.verbose === true ? { log: logTo(context.stderr) } : {};
  const { signal } = context.shutdown;
  const engine = await context.door.openEngine(options, { ...log, ...hooks, signal });
  const closing = { timeoutMillis: options.closeTimeout };
  let result: T;
  try {
    result = await use(engine);
  } catch (error) {
    // The first error is the one to report; a close that fails as well follows from it.
    await engine.close(closing).catch(() => undefined);
    throw error;
  }
  await engine.close(closing);
  return result;
}

export async function withReader<T>(
  context: Context,
  options: StoreOptions,
  use: (reader: ReadOnlyEngine) => Promise<T>,
): Promise<T> {
  requireRoot(options);
  const reader = await context.door.openReader(options);
  try {
    return await use(reader);
  } finally {
    await reader.close();
  }
}

/** One JSON document a line, as pino writes it: other tools can read that. */
export function logTo(sink: TextSink): Log {
  const at =
    (level: string) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      const time = new Date().toISOString();
      sink.write(`${JSON.stringify({ level, time, msg: message, ...fields })}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
