/** Checks of options that callers pass to an engine. */
import * as v from 'valibot';
import { EngineError } from '../lib/errors.ts';
import { checkWaitOptions } from '../lib/wait.ts';
import { checkFencingToken } from '../protocol/conditions.ts';
import { LIMITS } from '../protocol/limits.ts';
import { starName, streamConfig, type StreamConfig } from '../protocol/records.ts';
import { optionError } from '../protocol/settings.ts';
import type { OpenOptions } from './api.ts';

const partialConfig = v.partial(streamConfig);

/** @throws EngineError INVALID_OPTION */
export function checkStreamConfig(config: unknown): Partial<StreamConfig> {
  const parsed = v.safeParse(partialConfig, config);
  if (!parsed.success) throw optionError('config', parsed.issues[0]);
  return Object.fromEntries(
    Object.entries(parsed.output).filter(([, value]) => value !== undefined),
  );
}

/** @throws EngineError INVALID_OPTION */
export function checkOpenOptions(options: OpenOptions): void {
  checkWaitOptions(options, ['fencingToken', 'whileHeld']);
  const { fencingToken, whileHeld = 'refuse' } = options;
  if (fencingToken !== undefined) checkFencingToken(fencingToken);
  if (['refuse', 'wait'].includes(whileHeld)) return;
  throw new EngineError('INVALID_OPTION', 'an open refuses or waits while a stream is held', {
    details: { option: 'whileHeld', value: whileHeld, known: 'refuse,wait' },
  });
}

const listOptions = v.strictObject({
  prefix: v.optional(v.string(), ''),
  startAfter: v.optional(v.string()),
  limit: v.optional(
    v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(LIMITS.listPage)),
    LIMITS.listPage,
  ),
  signal: v.optional(v.instance(AbortSignal)),
  timeoutMillis: v.optional(v.pipe(v.number(), v.minValue(0))),
});

/** @throws EngineError INVALID_OPTION */
export function checkListOptions(options: unknown): {
  readonly prefix: string;
  readonly startAfter: string | undefined;
  readonly limit: number;
} {
  const parsed = v.safeParse(listOptions, options);
  if (!parsed.success) throw optionError('listStreams', parsed.issues[0]);
  const { prefix, startAfter, limit } = parsed.output;
  return { prefix, startAfter, limit };
}

const rollOptions = v.strictObject({
  copyQuorum: v.optional(
    v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(LIMITS.buckets)),
  ),
  window: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(LIMITS.window))),
  components: v.optional(v.unknown()),
  signal: v.optional(v.instance(AbortSignal)),
  timeoutMillis: v.optional(v.pipe(v.number(), v.minValue(0))),
});

/** @throws EngineError INVALID_OPTION */
export function checkRollOptions(options: unknown): v.InferOutput<typeof rollOptions> {
  const parsed = v.safeParse(rollOptions, options);
  if (!parsed.success) throw optionError('roll', parsed.issues[0]);
  return parsed.output;
}

const drainOptions = v.strictObject({
  onProgress: v.optional(v.function()),
  signal: v.optional(v.instance(AbortSignal)),
  timeoutMillis: v.optional(v.pipe(v.number(), v.minValue(0))),
});

/** @throws EngineError INVALID_OPTION */
export function checkDrainOptions(options: unknown): void {
  const parsed = v.safeParse(drainOptions, options);
  if (!parsed.success) throw optionError('drain', parsed.issues[0]);
}

/** @throws EngineError INVALID_OPTION */
export function checkStarName(star: unknown): void {
  const parsed = v.safeParse(starName, star);
  if (!parsed.success) throw optionError('star', parsed.issues[0]);
}
