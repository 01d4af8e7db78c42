/** What the options of a command say about where the data is, as descriptors of the engine. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { directoryComponents, s3Components, type Components } from '../engine/components.ts';
import type { S3Components } from '../engine/s3-components.ts';
import { EngineError, type ErrorDetails } from '../lib/errors.ts';
import type { PlaceOptions } from './store.ts';

type S3Input = Parameters<typeof s3Components>[0];

const ROOT_DEFAULT = './data';
const URL_SCHEME = 's3://';
const ANY_URL = /^[a-z][a-z0-9+.-]*:\/\//i;
/** Sixteen buckets with all their options are a few kilobytes. */
const CONFIG_BYTES_MAX = 1 << 20;

/** @throws EngineError INVALID_OPTION naming the option, or the setting in the file. */
export function componentsOf(where: PlaceOptions): Components {
  if (where.components !== undefined) return where.components;
  const s3 = s3ComponentsOf(where);
  if (s3 !== undefined) return s3;
  const { root = ROOT_DEFAULT, buckets, bucket } = where;
  return directoryComponents({ root, buckets: bucket === undefined ? buckets : [...bucket] });
}

/** The buckets of `--s3`; undefined without it. */
export function s3ComponentsOf({
  s3,
  root,
  endpoint,
  region,
}: PlaceOptions): S3Components | undefined {
  if (s3 === undefined) {
    refuseAlone('endpoint', endpoint);
    refuseAlone('region', region);
    return undefined;
  }
  if (s3.startsWith(URL_SCHEME)) {
    return s3Components({
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(region === undefined ? {} : { region }),
      buckets: s3.split(',').map(bucketOfUrl),
      metastore: { root: root ?? ROOT_DEFAULT },
    });
  }
  if (ANY_URL.test(s3)) throw keysInUrl();
  for (const [option, value] of Object.entries({ endpoint, region })) {
    if (value === undefined) continue;
    throw refused('with a file of settings this stands in the file', { option, file: s3 });
  }
  return s3ComponentsOfFile(s3, root);
}

function refuseAlone(option: string, value: string | undefined): void {
  if (value !== undefined) throw refused('this is about buckets of --s3', { option });
}

/** `s3://bucket/prefix`, with or without a slash at its end. */
function bucketOfUrl(url: string): S3Input['buckets'][number] {
  if (/[@:]/.test(url.slice(URL_SCHEME.length))) throw keysInUrl();
  const match = /^s3:\/\/([^/]+)(?:\/(.*?)\/?)?$/.exec(url);
  if (match === null) {
    throw refused('buckets are s3://bucket or s3://bucket/prefix, with commas in between', {
      option: 's3',
    });
  }
  const [, bucket, prefix = ''] = match;
  return { bucket: bucket!, prefix: prefix === '' ? '' : `${prefix}/` };
}

/** Not quoted: what stands there is likely a secret. */
function keysInUrl(): EngineError {
  const summary =
    'a bucket is named by s3://bucket or s3://bucket/prefix: no keys and no host go there';
  return refused(summary, { option: 's3' });
}

function s3ComponentsOfFile(file: string, root: string | undefined): S3Components {
  let text: string;
  try {
    const stats = statSync(file);
    // Devices and pipes have no size that could be checked first.
    if (!stats.isFile()) throw refused('the settings are no plain file', { option: 's3', file });
    if (stats.size > CONFIG_BYTES_MAX) {
      throw refused('the file of settings is too long', { file, bytesMax: CONFIG_BYTES_MAX });
    }
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (EngineError.is(error)) throw error;
    const systemCode = (error as NodeJS.ErrnoException).code;
    throw refused('the file of settings cannot be read', { option: 's3', file, systemCode });
  }
  return parseS3Settings(text, file, root);
}

/**
 * The options of `s3Components` as JSON; the directory of the metastore may be left to `--root`. Nothing
 * but names gets into an error: somebody may have put a secret there.
 *
 * @throws EngineError INVALID_OPTION
 */
export function parseS3Settings(text: string, file: string, root?: string): S3Components {
  let settings: unknown;
  try {
    settings = JSON.parse(text);
  } catch {
    // What the parser says quotes the text.
    throw refused('the file of settings is no JSON', { option: 's3', file });
  }
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) {
    throw refused('the file of settings is no JSON object', { option: 's3', file });
  }
  const { metastore = { root: ROOT_DEFAULT } } = settings as { metastore?: unknown };
  const options = { ...settings, metastore: root === undefined ? metastore : { root } };
  try {
    return s3Components(options as unknown as S3Input);
  } catch (error) {
    if (!EngineError.is(error)) throw error;
    throw new EngineError(error.code, error.summary, { details: { ...error.details, file } });
  }
}

function refused(summary: string, details: ErrorDetails): EngineError {
  return new EngineError('INVALID_OPTION', summary, { details });
}

/** The directory with the metastore. */
export function rootOf(components: Components): string {
  switch (components.kind) {
    case 's3':
      return components.metastore.root;
    case 'directory':
      return components.root;
    case 'memory':
      return '';
  }
}

/** A command that only looks must not look at an empty place that it would have to create. */
export function requireRoot(where: PlaceOptions): void {
  const components = componentsOf(where);
  if (existsSync(rootOf(components))) return;
  const value = components.kind === 's3' ? rootOf(components) : (where.root ?? ROOT_DEFAULT);
  throw refused('there is no data directory', { option: 'root', value });
}

/** Where the data is, for people. */
export function placeOf(components: Components): string {
  if (components.kind !== 's3') return rootOf(components);
  const names = components.buckets.map(({ name }) => name);
  return `${names.join(', ')}, metastore in ${rootOf(components)}`;
}
