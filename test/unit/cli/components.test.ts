import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { componentsOf } from '../../../src/cli/components.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { runWith } from './support.ts';

const SECRET = 'kB7+do/not/print/this/secret/key0123456789';
const ACCESS_KEY = 'AKIAIOSFODNN7EXAMPLE';

function settingsFile(settings: object | string): string {
  const folder = mkdtempSync(join(tmpdir(), 'asterlog-settings-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 's3.json');
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings));
  return file;
}

const of = (where: Omit<Parameters<typeof componentsOf>[0], 'buckets'>) =>
  componentsOf({ buckets: 3, ...where });

describe('buckets on the command line', () => {
  it('are directories without --s3', () => {
    expect(of({})).toMatchObject({ kind: 'directory', root: resolve('data') });
    expect(of({ root: '/d', bucket: ['/a', '/b'] })).toMatchObject({
      root: '/d',
      buckets: [{ path: '/a' }, { path: '/b' }],
    });
  });

  it('are URLs with one service for all', () => {
    const s3 = 's3://bucket-a,s3://bucket-b/log,s3://bucket-c/log/x/';
    expect(of({ s3, endpoint: 'http://localhost:9000', region: 'r', root: '/d' })).toMatchObject({
      kind: 's3',
      metastore: { root: '/d' },
      buckets: [
        { name: 's3://bucket-a/', bucket: 'bucket-a', prefix: '', addressing: 'path', region: 'r' },
        { name: 's3://bucket-b/log/', prefix: 'log/', endpoint: 'http://localhost:9000' },
        { name: 's3://bucket-c/log/x/', prefix: 'log/x/' },
      ],
    });
    expect(of({ s3: 's3://one-bucket' })).toMatchObject({
      buckets: [{ endpoint: 'https://s3.us-east-1.amazonaws.com', addressing: 'virtual' }],
    });
  });

  it('are what a file of settings says, and --root beats its metastore', () => {
    const settings = { buckets: [{ bucket: 'one-bucket' }], metastore: { root: '/m' } };
    const s3 = settingsFile(settings);
    expect(of({ s3 })).toMatchObject({ kind: 's3', metastore: { root: '/m' } });
    expect(of({ s3, root: '/d' })).toMatchObject({ metastore: { root: '/d' } });
    const { buckets } = settings;
    expect(of({ s3: settingsFile({ buckets }) })).toMatchObject({
      metastore: { root: resolve('data') },
    });
  });
});

describe('a variable that is empty', () => {
  it.each(['ASTERLOG_S3', 'ASTERLOG_ROOT'])('%s counts as not set', async (name) => {
    vi.stubEnv(name, '');
    onTestFinished(() => void vi.unstubAllEnvs());
    const args = ['buckets', 'init', '--dry-run', '--json', '--buckets', '2'];
    const { code, stdout, stderr } = await runWith(args);
    expect([code, stderr]).toEqual([0, '']);
    const { buckets } = JSON.parse(stdout) as { buckets: { place: string }[] };
    expect(buckets.map(({ place }) => place)).toEqual([
      resolve('data/bucket-0'),
      resolve('data/bucket-1'),
    ]);
  });
});

describe('wrong buckets on the command line', () => {
  const bucket = { bucket: 'one-bucket' };
  const inline = { accessKeyId: ACCESS_KEY, secretAccessKey: SECRET };
  it.each<[string, Parameters<typeof of>[0] | (() => Parameters<typeof of>[0]), object]>([
    ['--endpoint alone', { endpoint: 'http://localhost' }, { option: 'endpoint' }],
    ['--region alone', { region: 'r' }, { option: 'region' }],
    ['a URL without a bucket', { s3: 's3://' }, { option: 's3' }],
    ['a list with something else', { s3: 's3://bucket,bucket-2' }, { option: 's3' }],
    ['a bucket twice', { s3: 's3://bucket/x,s3://bucket/x/' }, { value: 's3://bucket/x/' }],
    ['a bad name', { s3: 's3://UPPER' }, { option: 'components.buckets.0.bucket' }],
    ['keys before a bucket', { s3: `s3://${ACCESS_KEY}:${SECRET}@bucket-a` }, { option: 's3' }],
    ['a secret before a bucket', { s3: `s3://bucket-b,s3://${SECRET}@bucket-a` }, { option: 's3' }],
    ['keys in another URL', { s3: `https://${ACCESS_KEY}:${SECRET}@host/b` }, { option: 's3' }],
    ['a key as a bucket', { s3: `s3://${ACCESS_KEY}` }, { option: 'components.buckets.0.bucket' }],
    [
      'a secret as a prefix',
      { s3: `s3://bucket-a/${SECRET}` },
      { option: 'components.buckets.0.prefix' },
    ],
    [
      'a secret as the region',
      { s3: 's3://bucket-a', region: SECRET },
      { option: 'components.region' },
    ],
    [
      'a password in the endpoint',
      { s3: 's3://bucket', endpoint: `https://me:${SECRET}@host` },
      { option: 'components.endpoint' },
    ],
    ['no file', { s3: '/nonexistent.json' }, { file: '/nonexistent.json', systemCode: 'ENOENT' }],
    ['a folder', { s3: tmpdir() }, { file: tmpdir() }],
    ['a device without an end', { s3: '/dev/zero' }, { file: '/dev/zero' }],
    [
      '--region with a file',
      () => ({ s3: settingsFile({ buckets: [bucket] }), region: 'r' }),
      { option: 'region' },
    ],
    [
      'no JSON, with a secret where it stops',
      () => ({ s3: settingsFile(`{\n  "buckets": [],\n  "secretAccessKey": ${SECRET}\n}`) }),
      { option: 's3' },
    ],
    ['no object', () => ({ s3: settingsFile([SECRET]) }), { option: 's3' }],
    ['text', () => ({ s3: settingsFile(JSON.stringify(SECRET)) }), { option: 's3' }],
    [
      'a file too long',
      () => ({ s3: settingsFile(`{"x":"${'x'.repeat(1 << 20)}"}`) }),
      { bytesMax: 1 << 20 },
    ],
    ['no buckets', () => ({ s3: settingsFile({}) }), { option: 'components.buckets' }],
    [
      'a secret in place of the buckets',
      () => ({ s3: settingsFile({ buckets: SECRET }) }),
      { option: 'components.buckets' },
    ],
    [
      'a secret as an option',
      () => ({ s3: settingsFile({ buckets: [bucket], secretAccessKey: SECRET }) }),
      { option: 'components.secretAccessKey' },
    ],
    [
      'a secret as an option of a bucket',
      () => ({ s3: settingsFile({ buckets: [{ ...bucket, password: SECRET }] }) }),
      { option: 'components.buckets.0.password' },
    ],
    [
      'a secret as the name of an option',
      () => ({ s3: settingsFile({ buckets: [bucket], [SECRET]: true }) }),
      { option: 'components' },
    ],
    [
      'a key as the name of an option of a bucket',
      () => ({ s3: settingsFile({ buckets: [{ ...bucket, [ACCESS_KEY]: SECRET }] }) }),
      { option: 'components.buckets.0' },
    ],
    [
      'a secret as a bucket in a file',
      () => ({ s3: settingsFile({ buckets: [{ bucket: SECRET, region: SECRET }] }) }),
      { option: 'components.buckets.0.region' },
    ],
    [
      'a secret as the addressing',
      () => ({ s3: settingsFile({ buckets: [{ ...bucket, addressing: SECRET }] }) }),
      { option: 'components.buckets.0.addressing' },
    ],
    [
      'keys in place of variables',
      () => ({
        s3: settingsFile({ buckets: [bucket], credentials: { from: 'environment', ...inline } }),
      }),
      { option: 'components.credentials.accessKeyId' },
    ],
    [
      'a secret in place of a variable',
      () => ({
        s3: settingsFile({
          buckets: [bucket],
          credentials: { from: 'environment', secretAccessKey: 'onlyLettersAndDigits0123456789' },
        }),
      }),
      { option: 'components.credentials.secretAccessKey' },
    ],
    [
      'keys without saying where from',
      () => ({ s3: settingsFile({ buckets: [{ ...bucket, credentials: inline }] }) }),
      { option: 'components.buckets.0.credentials.from' },
    ],
    [
      'a secret in place of credentials',
      () => ({ s3: settingsFile({ buckets: [bucket], credentials: { from: SECRET } }) }),
      { option: 'components.credentials.from' },
    ],
    [
      'a secret in place of a switch',
      () => ({ s3: settingsFile({ buckets: [bucket], signsPayload: SECRET }) }),
      { option: 'components.signsPayload' },
    ],
  ])('%s: refused with the setting, and no secret shown', (_, where, details) => {
    let error: unknown;
    try {
      of(typeof where === 'function' ? where() : where);
    } catch (thrown) {
      error = thrown;
    }
    if (!EngineError.is(error)) throw new Error('no coded error', { cause: error });
    expect(error.code).toBe('INVALID_OPTION');
    expect(error.details).toMatchObject(details);
    const shown = inspect(error, { depth: 10, showHidden: true }) + JSON.stringify(error);
    for (const secret of [SECRET, ACCESS_KEY, 'onlyLetters', SECRET.slice(0, 8)]) {
      expect(shown).not.toContain(secret);
    }
  });

  it.each([
    [['streams', '--s3', 's3://a-bucket', '--buckets', '2'], "'--buckets <count>'"],
    [['streams', '--s3', 's3://a-bucket', '--bucket', '/x'], "'--bucket <dir>'"],
    [['streams', '--s3', 's3://a-bucket', '--root', '/nonexistent'], 'value=/nonexistent'],
    [['demo', '--s3', '/nonexistent.json'], 'file=/nonexistent.json'],
    [['demo', '--region', 'x'], 'option=region'],
  ])('%j is refused in one line', async (args, part) => {
    const { code, stdout, stderr } = await runWith(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^asterlog: INVALID_OPTION [^\n]+\n$/);
    expect(stderr).toContain(part);
  });
});
