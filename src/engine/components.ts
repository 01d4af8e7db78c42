/**
 * Descriptors of what an engine stores in: plain data, so that they can be sent to the thread where
 * the star runs and instantiated there.
 */
import { resolve } from 'node:path';
import * as v from 'valibot';
import { EngineError } from '../lib/errors.ts';
import { optionError } from '../protocol/settings.ts';
import { LIMITS } from '../protocol/limits.ts';
import { checkDistinctS3, resolveS3Options, s3Options, s3Schema } from './s3-components.ts';
import type { S3Components } from './s3-components.ts';

/** Buckets and metastore in this process's memory; shared by engines that name the same id. */
export interface MemoryComponents {
  readonly kind: 'memory';
  readonly id: string;
  readonly buckets: number;
}

/** Buckets in directories, metastore in an LMDB file beside them. */
export interface DirectoryComponents {
  readonly kind: 'directory';
  /** Absolute path; holds the metastore and, unless `paths` are given, the buckets. */
  readonly root: string;
  readonly buckets: readonly { readonly name: string; readonly path: string }[];
}

export type Components = MemoryComponents | DirectoryComponents | S3Components;

const bucketCount = v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(LIMITS.buckets));
const text = v.pipe(v.string(), v.minLength(1), v.maxLength(4_096));

const memoryOptions = v.strictObject({
  buckets: v.optional(bucketCount, 3),
  id: v.optional(text),
});

const directoryOptions = v.strictObject({
  root: text,
  buckets: v.optional(
    v.union([bucketCount, v.pipe(v.array(text), v.minLength(1), v.maxLength(LIMITS.buckets))]),
    3,
  ),
});

let memoryCount = 0;

/**
 * Everything in memory: nothing survives the process. Engines created from the same descriptor, or
 * with the same `id`, share the data.
 *
 * @throws EngineError INVALID_OPTION
 */
export function memoryComponents(
  options: v.InferInput<typeof memoryOptions> = {},
): MemoryComponents {
  const { buckets, id } = parse(memoryOptions, options);
  return { kind: 'memory', buckets, id: id ?? `memory-${(memoryCount++).toString()}` };
}

/**
 * The embedded default: a directory a bucket and an LMDB metastore, nothing to install.
 *
 * @param options.root - data directory; created when absent.
 * @param options.buckets - how many buckets to keep under the root, or the directories themselves,
 *   ideally on as many disks. Their order is part of the set.
 * @throws EngineError INVALID_OPTION
 */
export function directoryComponents(
  options: v.InferInput<typeof directoryOptions>,
): DirectoryComponents {
  const parsed = parse(directoryOptions, options);
  const root = resolve(parsed.root);
  const buckets =
    typeof parsed.buckets === 'number'
      ? Array.from({ length: parsed.buckets }, (_, index) => {
          const name = `bucket-${index.toString()}`;
          return { name, path: resolve(root, name) };
        })
      : parsed.buckets.map((path) => ({ name: resolve(path), path: resolve(path) }));
  return { kind: 'directory', root, buckets };
}

/**
 * Buckets on servers that speak S3 and keep `If-None-Match: *`, and an LMDB metastore on this machine.
 * Every server is tried out when an engine opens, and refused with `BUCKET_REFUSED` if it does not
 * keep the condition, keeps versions, or has a lifecycle rule that removes objects.
 *
 * @param options.buckets - in an order that is part of the set; each may have options of its own in
 *   place of the common ones. `name` is how sets know a bucket: `s3://<bucket>/<prefix>` by default.
 * @param options.region - `us-east-1` by default.
 * @param options.endpoint - URL of the service; that of AWS in the region by default.
 * @param options.addressing - `path` where there is an endpoint, `virtual` at AWS.
 * @param options.credentials - names of environment variables, `AWS_ACCESS_KEY_ID` and so on by default, or
 *   `{ from: 'chain' }`, which needs the package `@aws-sdk/credential-provider-node`.
 * @param options.caFile - certificates (PEM) to trust instead of those of the system.
 * @param options.metastore - `root` is the directory of the metastore; created when absent.
 * @throws EngineError INVALID_OPTION
 */
export function s3Components(options: v.InferInput<typeof s3Options>): S3Components {
  const components = resolveS3Options(parse(s3Options, options));
  checkDistinctS3(components);
  return components;
}

export function bucketCountOf(components: Components): number {
  return typeof components.buckets === 'number' ? components.buckets : components.buckets.length;
}

function parse<T extends v.GenericSchema>(schema: T, options: unknown): v.InferOutput<T> {
  const parsed = v.safeParse(schema, options);
  if (!parsed.success) throw withoutSecrets(parsed.issues[0]);
  return parsed.output;
}

/**
 * Options of which errors show the value: any text will do for them, so it is empty or far too long. Any
 * other may have got a secret by mistake.
 */
const SHOWN = /^components(?:\.buckets\.\d+)?\.(?:kind|id|root|path|name|caFile)$/;
/** What the name of an option looks like. Where somebody wrote a secret in its place, it hardly does. */
const OPTION_NAME = /^[a-z]+(?:[A-Z][a-z]+){0,3}$/;
const OPTION_NAME_MAX = 24;

function withoutSecrets(issue: v.BaseIssue<unknown>): EngineError {
  const error = optionError('components', issue);
  const { option, value, problem, ...rest } = error.details;
  const path = (issue.path ?? []).map(({ key }) => String(key));
  const name = path.at(-1) ?? '';
  const isName = name.length <= OPTION_NAME_MAX && OPTION_NAME.test(name);
  if (issue.type === 'strict_object' && issue.expected === 'never' && !isName) {
    return new EngineError(error.code, error.summary, {
      details: {
        option: ['components', ...path.slice(0, -1)].join('.'),
        problem: 'it has something whose name is none of an option',
      },
    });
  }
  if (typeof value !== 'string' || SHOWN.test(String(option))) return error;
  // The problem may quote what was received.
  const known = String(problem).replace(/ but received .*$/s, '');
  return new EngineError(error.code, error.summary, {
    details: { option, problem: known, ...rest },
  });
}

const componentsSchema = v.variant('kind', [
  v.strictObject({ kind: v.literal('memory'), id: text, buckets: bucketCount }),
  v.strictObject({
    kind: v.literal('directory'),
    root: text,
    buckets: v.pipe(
      v.array(v.strictObject({ name: text, path: text })),
      v.minLength(1),
      v.maxLength(LIMITS.buckets),
    ),
  }),
  s3Schema,
]);

/** Checks a descriptor that may have come from anywhere. */
export function checkComponents(components: unknown): Components {
  const parsed = parse(componentsSchema, components);
  if (parsed.kind === 'directory') checkDistinct(parsed);
  if (parsed.kind === 's3') checkDistinctS3(parsed);
  return parsed;
}

/** Two buckets in one directory would be one copy that counts twice. */
function checkDistinct({ buckets }: DirectoryComponents): void {
  for (const key of ['name', 'path'] as const) {
    const seen = new Set<string>();
    for (const bucket of buckets) {
      const value = key === 'path' ? resolve(bucket.path) : bucket.name;
      if (seen.has(value)) {
        throw new EngineError('INVALID_OPTION', 'each bucket has a directory of its own', {
          details: { option: `components.buckets.${key}`, value },
        });
      }
      seen.add(value);
    }
  }
}
