/** Options that say where the data is and how it is kept, and the engines they open. */
import { Option, type Command } from 'commander';
import type { ListenOptions } from '../engine/forwarding/listen-options.ts';
import type { Engine, FenceProgress, ReadOnlyEngine } from '../engine/api.ts';
import type {
  ExplainedSlot,
  FenceReport,
  ReleaseReport,
  ReleaseRequest,
} from '../engine/operator.ts';
import type { S3Components } from '../engine/s3-components.ts';
import type { WaitOptions } from '../lib/wait.ts';
import type { Log } from '../ports/log.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { EngineSettings } from '../protocol/settings.ts';
import { duration, integerIn } from './parse.ts';

/** Where the data is: every command has these. */
export interface PlaceOptions {
  /** Undefined: what the settings of `s3` say, or `./data`. */
  readonly root?: string;
  readonly buckets: number;
  /** The directories of the buckets, where they are not below the root. */
  readonly bucket?: readonly string[];
  /** A file of settings, or URLs of buckets. */
  readonly s3?: string;
  readonly endpoint?: string;
  readonly region?: string;
  /** In place of all options above: what a process hands on to those that it starts. */
  readonly components?: S3Components;
}

/** Which data: commands that look at it have these besides. */
export interface StoreOptions extends PlaceOptions {
  readonly star: string;
  readonly basin: string;
}

/** How it is written: commands that open an engine have these besides. */
export interface WriterOptions extends StoreOptions {
  readonly copies?: number;
  readonly sessionTimeout: number;
  /** Another name of the same option. */
  readonly oxiaSessionTimeout?: number;
  readonly closeTimeout: number;
  readonly supersede?: boolean;
}

export interface OpenHooks {
  readonly log?: Log;
  readonly onFenceProgress?: (progress: FenceProgress) => void;
  /** Settings for which there is no option. */
  readonly settings?: EngineSettings;
  /** Listens for other engines of the same data, and forwards to them. */
  readonly listen?: ListenOptions;
  /** Gives up the opening. */
  readonly signal?: AbortSignal;
}

/** Opens engines; tests put another one in place. */
export interface EngineDoor {
  openEngine(options: WriterOptions, hooks?: OpenHooks): Promise<Engine>;
  openReader(options: StoreOptions): Promise<ReadOnlyEngine>;
  fence(
    options: StoreOptions,
    target: { readonly star: string; readonly epoch: number },
    hooks: WaitOptions & { readonly onFenceProgress: (progress: FenceProgress) => void },
  ): Promise<FenceReport>;
  release(
    options: StoreOptions,
    request: Omit<ReleaseRequest, 'basin'>,
    hooks: WaitOptions & { readonly onFenceProgress: (progress: FenceProgress) => void },
  ): Promise<ReleaseReport>;
  explain(
    options: StoreOptions,
    target: { readonly star: string; readonly epoch: number; readonly slot: number },
    hooks: WaitOptions,
  ): Promise<ExplainedSlot>;
}

export function addPlaceOptions(command: Command): Command {
  return addS3Options(
    command
      .addOption(
        fromEnvironment(
          'ASTERLOG_ROOT',
          new Option(
            '--root <dir>',
            'data directory, of buckets on S3 the one of the metastore; default: ./data',
          ),
        ),
      )
      .addOption(
        new Option('--buckets <count>', 'buckets in it, one directory each')
          .argParser(integerIn(1, LIMITS.buckets))
          .default(3),
      ),
  ).addOption(
    new Option('--bucket <dir>', 'a bucket of its own place; repeat, always in the same order')
      .argParser((dir: string, before: string[] | undefined) => [...(before ?? []), dir])
      .conflicts(['buckets', 's3']),
  );
}

export function addStoreOptions(command: Command): Command {
  return addPlaceOptions(command)
    .option('--star <name>', 'the chain; one live process a star', 'main')
    .option('--basin <name>', 'name space of the streams', 'default');
}

/** Buckets on S3 in place of directories. Secrets are named in the file, or come from the environment. */
export function addS3Options(command: Command): Command {
  return command
    .addOption(
      fromEnvironment(
        'ASTERLOG_S3',
        new Option(
          '--s3 <file or urls>',
          'buckets on S3: a JSON file of settings, or s3://bucket/prefix,s3://...',
        ).conflicts('buckets'),
      ),
    )
    .option('--endpoint <url>', 'with --s3 s3://...: the service; default: AWS')
    .option('--region <name>', 'with --s3 s3://...: what requests are signed for');
}

/** A variable that is empty counts as one that is not set. */
function fromEnvironment(variable: string, option: Option): Option {
  return process.env[variable] === '' ? option : option.env(variable);
}

export function addWriterOptions(command: Command): Command {
  const sessionTimeout = '--session-timeout <duration>';
  return addStoreOptions(command)
    .addOption(
      new Option(
        '--copies <count>',
        'copies that make a record durable; default: a majority of the buckets',
      ).argParser(integerIn(1, LIMITS.buckets)),
    )
    .addOption(
      new Option(sessionTimeout, 'silence after which this process counts as dead')
        .argParser(duration)
        .default(15_000, '15s'),
    )
    .addOption(new Option('--oxia-session-timeout <duration>').argParser(duration).hideHelp())
    .option('--supersede', 'replace a live process of the same star instead of failing')
    .addOption(
      new Option('--close-timeout <duration>', 'longest wait for an orderly end')
        .argParser(duration)
        .default(10_000, '10s'),
    );
}

/** The settings that the options stand for. */
export function settingsOf(options: StoreOptions & Partial<WriterOptions>): EngineSettings {
  const { star, basin, copies, supersede } = options;
  const sessionTimeout = options.oxiaSessionTimeout ?? options.sessionTimeout;
  return {
    star,
    basin,
    ...(copies === undefined ? {} : { copyQuorum: copies }),
    ...(sessionTimeout === undefined ? {} : { sessionTimeoutMillis: sessionTimeout }),
    ...(supersede === true ? { supersede } : {}),
  };
}
