import { Option, type Command } from 'commander';
import { addCommonOptions, outputOf } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { demoPlace } from '../demo/place.ts';
import { demoDocument, demoLines, demoPassed } from '../demo/result.ts';
import { runDemo } from '../demo/run.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { loadCorpus } from '../load/corpus.ts';
import { integerIn, numberIn } from '../parse.ts';
import { addS3Options } from '../store.ts';
import { takeoverDocument, takeoverLines, takeoverPassed } from '../takeover/result.ts';
import { runTakeover } from '../takeover/run.ts';

interface DemoOptions extends CommonOptions {
  readonly seconds: number;
  readonly root?: string;
  readonly buckets: number;
  readonly s3?: string;
  readonly endpoint?: string;
  readonly region?: string;
  readonly copies: number;
  readonly streams: number;
  readonly producers: number;
  readonly keep?: boolean;
  readonly takeover?: boolean;
}

const HELP = `
A child process appends text to several streams from several producers at once. At a random moment it
gets SIGKILL. The next process finds the slots that were being written, completes or poisons each of
them (the fence), and goes on appending. Then everything is read back and compared with what was
acknowledged; the acknowledgements were kept in the parent process, which nobody killed.

With --takeover two processes share the streams and append at once. The one that leads them gets SIGKILL;
the other one finds out, fences and settles what the dead one left, and goes on. No producer may fail.

Exit code ${EXIT_CODES.failed.code} tells that a record was lost, doubled, altered or out of order.
`;

const DEMO_BATCH_RECORDS = 100;
const DEMO_IN_FLIGHT = 16;

export function registerDemo(program: Command, context: Context): void {
  const command = program
    .command('demo')
    .summary('append, kill, recover, read everything back')
    .description('Shows on this machine that a killed writer loses nothing it acknowledged.')
    .argument('[files...]', 'text to append; default: the text that comes with the package')
    .addOption(
      new Option('--seconds <seconds>', 'how long to append')
        .argParser(numberIn(0.5, 3600))
        .default(5),
    )
    .option('--root <dir>', 'data directory; default: a new temporary one, removed at the end')
    .addOption(
      new Option('--buckets <count>', 'buckets in it').argParser(integerIn(1, 16)).default(3),
    )
    .addOption(
      new Option('--copies <count>', 'copies that make a record durable')
        .argParser(integerIn(1, 16))
        .default(2),
    )
    .addOption(
      new Option('--streams <count>', 'streams to append to')
        .argParser(integerIn(1, 1_000))
        .default(4),
    )
    .addOption(
      new Option('--producers <count>', 'concurrent producers')
        .argParser(integerIn(1, 1_000))
        .default(8),
    )
    .option('--takeover', 'two processes; the one that leads is killed')
    .option('--keep', 'keep the temporary directory, and the objects in buckets on S3');
  addCommonOptions(addS3Options(command))
    .addHelpText('after', HELP)
    .action((files: string[], options: DemoOptions) => demo(context, files, options));
}

async function demo(context: Context, files: string[], options: DemoOptions): Promise<void> {
  const output = outputOf(context, options);
  const { seconds, copies, producers } = options;
  // An unreadable text is found before anything is created; the writers load it again.
  loadCorpus(files);
  const place = await demoPlace(options);
  try {
    const plan = {
      store: {
        ...place.store,
        copies,
        star: 'main',
        basin: 'default',
        sessionTimeout: 15_000,
        closeTimeout: 30_000,
      },
      place: place.text,
      seconds,
      producers,
      streams: Math.min(options.streams, producers),
      batchRecords: DEMO_BATCH_RECORDS,
      inFlight: DEMO_IN_FLIGHT,
      files,
    };
    const { paint } = output.out;
    let passed: boolean;
    if (options.takeover === true) {
      const result = await runTakeover(context, output, plan);
      passed = takeoverPassed(result);
      output.result(takeoverDocument(result), () => ['', ...takeoverLines(result, paint)]);
    } else {
      const figures = await runDemo(context, output, plan);
      passed = demoPassed(figures);
      output.result(demoDocument(figures), () => ['', ...demoLines(figures, paint)]);
    }
    if (!passed) context.setExit(EXIT_CODES.failed.code);
  } finally {
    const left = await place.leave();
    if (left !== undefined) output.note(left);
  }
}
