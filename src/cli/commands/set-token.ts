import type { Command } from 'commander';
import { addCommonOptions, outputOf, withEngine } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { addWriterOptions, type WriterOptions } from '../store.ts';

interface SetTokenOptions extends WriterOptions, CommonOptions {
  readonly fencingToken?: string;
}

const HELP = `
From the record that this command appends on, appends that carry another token are refused, and handles
that were opened under another token end. An empty token clears it. The token is an agreement between
producers; what makes a second writer harmless is the fence, with or without a token.

Examples:
  $ asterlog set-token orders producer-7
  $ asterlog append --stream orders --fencing-token producer-7 orders.txt
  $ asterlog set-token orders "" --fencing-token producer-7
`;

export function registerSetToken(program: Command, context: Context): void {
  const command = program
    .command('set-token')
    .argument('<stream>', 'its name; it is created if there is none')
    .argument('<token>', 'at most 36 bytes; "" clears it')
    .summary('install the fencing token of a stream')
    .description('Appends a fence command: the token that producers of the stream must agree on.')
    .option('--fencing-token <token>', 'only while this is the token of the stream');
  addCommonOptions(addWriterOptions(command))
    .addHelpText('after', HELP)
    .action((stream: string, token: string, options: SetTokenOptions) =>
      setToken(context, { name: stream, token }, options),
    );
}

async function setToken(
  context: Context,
  { name, token }: { readonly name: string; readonly token: string },
  options: SetTokenOptions,
): Promise<void> {
  const output = outputOf(context, options);
  const { signal } = context.shutdown;
  const { fencingToken } = options;
  const ack = await withEngine(context, options, {}, async (engine) => {
    const stream = await engine.open(name, {
      signal,
      ...(fencingToken === undefined ? {} : { fencingToken }),
    });
    return stream.fence(token, { signal });
  });
  const { seqNum } = ack.start;
  output.result({ stream: name, fencingToken: token, seqNum }, () => [
    token === ''
      ? `${name}: the fencing token is cleared from ${seqNum} on`
      : `${name}: the fencing token is ${JSON.stringify(token)} from ${seqNum} on`,
  ]);
}
