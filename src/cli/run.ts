/** One run of the command line, from arguments to exit code. */
import { Command, CommanderError } from 'commander';
import { EngineError } from '../lib/errors.ts';
import { registerAppend } from './commands/append.ts';
import { registerBuckets } from './commands/buckets.ts';
import { registerCheck } from './commands/check.ts';
import { registerDemo } from './commands/demo.ts';
import { registerExplain } from './commands/explain.ts';
import { registerFence } from './commands/fence.ts';
import { registerRead } from './commands/read.ts';
import { registerRelease } from './commands/release.ts';
import { registerSetToken } from './commands/set-token.ts';
import { registerStatus } from './commands/status.ts';
import { registerStreams } from './commands/streams.ts';
import { registerTail } from './commands/tail.ts';
import { outputOf, type Context } from './context.ts';
import { EXIT_CODES, exitCodeLines, exitCodeOf } from './exit-codes.ts';

/** Runs one command; every failure is reported here and becomes an exit code. */
export async function runCommand(
  args: readonly string[],
  version: string,
  base: Omit<Context, 'setExit'>,
): Promise<number> {
  let code: number = EXIT_CODES.ok.code;
  const context: Context = {
    ...base,
    setExit: (value) => {
      code = value;
    },
  };
  try {
    await buildProgram(version, context).parseAsync(args, { from: 'user' });
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return code;
    // Whatever a stopped command throws is the stop itself, unless the error says more.
    const stopped = context.shutdown.exitCode;
    if (stopped !== undefined && isStop(thrown)) return stopped;
    const error = thrown instanceof CommanderError ? usageError(thrown) : thrown;
    if (error !== undefined) outputOf(context, { json: args.includes('--json') }).fail(error);
    return error === undefined ? EXIT_CODES.usage.code : exitCodeOf(error);
  }
  return context.shutdown.exitCode ?? code;
}

function isStop(error: unknown): boolean {
  return EngineError.is(error) && (error.kind === 'cancelled' || error.kind === 'closed');
}

/** Usage errors of the parser in the shape of all others; undefined when help was the answer. */
function usageError(error: CommanderError): EngineError | undefined {
  if (error.code === 'commander.help') return undefined;
  return new EngineError(
    'INVALID_OPTION',
    error.message.replace(/^error: /, '').replace(/\.$/, ''),
  );
}

function buildProgram(version: string, context: Context): Command {
  const program = new Command('asterlog')
    .description('Durable, totally ordered streams on plain object storage.')
    .version(version)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
      // Reported by `runCommand` with all other errors.
      outputError: () => undefined,
    });
  const registers = [
    registerDemo,
    registerAppend,
    registerRead,
    registerTail,
    registerStreams,
    registerStatus,
    registerCheck,
    registerFence,
    registerExplain,
    registerRelease,
    registerSetToken,
    registerBuckets,
  ];
  for (const register of registers) register(program, context);
  program.addHelpText('after', `\nExit codes:\n${exitCodeLines().join('\n')}\n`);
  return program;
}
