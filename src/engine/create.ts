/** Builds an engine from plain descriptors: `createEngine` for embedders. */
import * as v from 'valibot';
import type { WaitOptions } from '../lib/wait.ts';
import { optionError, resolveSettings, type EngineSettings } from '../protocol/settings.ts';
import type { Log } from '../ports/log.ts';
import { Http2Peers } from '../adapters/peers/http2-peers.ts';
import type { Engine, FenceProgress, ReadOnlyEngine } from './api.ts';
import { bucketCountOf, checkComponents, type Components } from './components.ts';
import { checkListenOptions, type ListenOptions } from './forwarding/listen-options.ts';
import { openEngine } from './host.ts';
import { instantiate } from './instantiate.ts';
import {
  explainEpochSlot,
  fenceEpoch,
  releaseStream,
  type ExplainedSlot,
  type FenceReport,
  type ReleaseReport,
  type ReleaseRequest,
} from './operator.ts';
import { openReadOnly } from './read-only.ts';

export interface CreateEngineOptions extends WaitOptions {
  readonly components: Components;
  readonly settings?: EngineSettings;
  /**
   * Listens for other engines of the same metastore, and forwards appends and reads of streams that
   * they lead to them. Off by default; every engine that takes part needs it, with the same token.
   */
  readonly listen?: ListenOptions;
  /** Structured log in the shape of pino; silent by default. */
  readonly log?: Log;
  /** Called while epochs of the own chain are fenced. Must not throw. */
  readonly onFenceProgress?: (progress: FenceProgress) => void;
}

const optionNames = v.strictObject({
  components: v.unknown(),
  settings: v.optional(v.unknown()),
  log: v.optional(v.unknown()),
  onFenceProgress: v.optional(v.function()),
  signal: v.optional(v.instance(AbortSignal)),
  timeoutMillis: v.optional(v.pipe(v.number(), v.minValue(0))),
});

const startOptionNames = v.strictObject({
  ...optionNames.entries,
  listen: v.optional(v.unknown()),
});

/**
 * Opens the components, registers the star, mints an epoch and serves. Earlier epochs of the star
 * are fenced and settled behind it: `engine.recovered()` tells when.
 *
 * @throws EngineError INVALID_OPTION naming option, value and bound; STAR_IN_USE; BUCKET_REFUSED,
 *   BUCKET_IDENTITY, BUCKET_UNAVAILABLE; LAYOUT_VERSION; METASTORE_UNAVAILABLE, METASTORE_CORRUPT;
 *   ABORTED, DEADLINE_EXCEEDED. Nothing stays open then.
 */
export async function createEngine(options: CreateEngineOptions): Promise<Engine> {
  const { components, settings, log, onFenceProgress, signal, timeoutMillis } = check(
    options,
    startOptionNames,
  );
  const listen = options.listen === undefined ? undefined : checkListenOptions(options.listen);
  const { ports, ...rest } = await instantiate(components, settings, { log, mode: 'write' });
  const peers = listen === undefined ? undefined : new Http2Peers({ ...listen, log: ports.log });
  return openEngine(ports, settings, { ...rest, peers, onFenceProgress, signal, timeoutMillis });
}

/**
 * Looks at the components beside a running engine or after a crash; takes no lease, writes nothing.
 *
 * @throws EngineError as `createEngine` does, but for STAR_IN_USE.
 */
export async function openReader(
  options: Omit<CreateEngineOptions, 'onFenceProgress' | 'listen'>,
): Promise<ReadOnlyEngine> {
  const { components, settings, log } = check(options);
  const { ports, release } = await instantiate(components, settings, { log, mode: 'read' });
  return openReadOnly(ports, settings, release);
}

function check(
  options: CreateEngineOptions,
  names: typeof optionNames | typeof startOptionNames = optionNames,
): CreateEngineOptions & { readonly settings: ReturnType<typeof resolveSettings> } {
  const parsed = v.safeParse(names, options);
  if (!parsed.success) throw optionError('options', parsed.issues[0]);
  const components = checkComponents(options.components);
  return {
    ...options,
    components,
    settings: resolveSettings(options.settings, bucketCountOf(components)),
  };
}

/** Which data an operator works on; no lease is taken. */
export type OperatorOptions = Omit<CreateEngineOptions, 'onFenceProgress' | 'listen'>;

/**
 * Fences an epoch and settles it, from a process that leads nothing: `asterlog fence`.
 *
 * @throws EngineError as `fenceEpoch` (operator.ts) and `createEngine` do.
 */
export async function fenceAsOperator(
  options: CreateEngineOptions,
  target: { readonly star: string; readonly epoch: number },
): Promise<FenceReport> {
  const { components, settings, log, onFenceProgress, signal, timeoutMillis } = check(options);
  const { ports, release } = await instantiate(components, settings, { log, mode: 'write' });
  try {
    const wait = { signal, timeoutMillis: timeoutMillis ?? settings.defaultTimeoutMillis };
    return await fenceEpoch(ports, target, { ...wait, onProgress: onFenceProgress });
  } finally {
    await release();
  }
}

/**
 * Releases a stream that its leader does not give back: `asterlog release`.
 *
 * @throws EngineError as `releaseStream` (operator.ts) and `createEngine` do.
 */
export async function releaseAsOperator(
  options: CreateEngineOptions,
  request: Omit<ReleaseRequest, 'basin'>,
): Promise<ReleaseReport> {
  const { components, settings, log, onFenceProgress, signal, timeoutMillis } = check(options);
  const { ports, release } = await instantiate(components, settings, { log, mode: 'write' });
  try {
    const wait = { signal, timeoutMillis: timeoutMillis ?? settings.defaultTimeoutMillis };
    const { basin } = settings;
    const target = { ...request, basin };
    return await releaseStream(ports, target, { ...wait, onProgress: onFenceProgress });
  } finally {
    await release();
  }
}

/** What the buckets hold of a slot and why: `asterlog explain`. Writes nothing. */
export async function explainAsOperator(
  options: OperatorOptions,
  target: { readonly star: string; readonly epoch: number; readonly slot: number },
): Promise<ExplainedSlot> {
  const { components, settings, log, signal, timeoutMillis } = check(options);
  const { ports, release } = await instantiate(components, settings, { log, mode: 'read' });
  try {
    return await explainEpochSlot(ports, target, { signal, timeoutMillis });
  } finally {
    await release();
  }
}
