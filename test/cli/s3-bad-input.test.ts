/** Settings of S3 that are wrong: one coded line in time that says which, and no secret in it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { S3Server, TEST_REGION } from '../support/s3/server.ts';
import { bucketsOf, runOnS3, s3Server, settingsFile, THREE } from './s3-support.ts';
import { eventually } from '../support/eventually.ts';
import { start, temporaryFolder } from './support.ts';

vi.setConfig({ testTimeout: 120_000 });

/** A request ends after 30 s; the start of a process on a busy machine comes on top. */
const DEADLINE_MILLIS = 60_000;
const pem = (name: string): string =>
  readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');

async function failureOf(args: readonly string[], input = 'one\n'): Promise<string> {
  const begunAt = performance.now();
  const { code, stdout, stderr } = await runOnS3(args, input);
  expect(performance.now() - begunAt).toBeLessThan(DEADLINE_MILLIS);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^asterlog: [A-Z_]+ [^\n]+\n$/);
  expect([2, 4]).toContain(code);
  return stderr;
}

const append = (where: readonly string[]): string[] => [
  ...['append', '--stream', 's', '--root', join(temporaryFolder(), 'data')],
  ...where,
];

describe('a wrong setting of buckets on S3', () => {
  it.each<[string, (server: S3Server) => void, RegExp]>([
    [
      'region',
      (s) => (s.region = 'eu-west-9'),
      /BUCKET_REFUSED.* setting=region .*expected=eu-west-9/,
    ],
    [
      'access key',
      (s) => (s.credentials = { ...s.credentials, accessKeyId: 'AKOTHER' }),
      /BUCKET_REFUSED.* setting=accessKeyId/,
    ],
    [
      'secret key',
      (s) => (s.credentials = { ...s.credentials, secretAccessKey: 'another' }),
      /BUCKET_REFUSED.* setting=secretAccessKey/,
    ],
    [
      'session token',
      (s) => (s.credentials = { ...s.credentials, sessionToken: 'another' }),
      /BUCKET_REFUSED.* setting=sessionToken/,
    ],
    ['bucket', (s) => s.buckets.delete('bucket-b'), /BUCKET_REFUSED.*bucket-b.* setting=bucket/],
    [
      'permission',
      (s) => s.denied.add('s3:PutObject'),
      /BUCKET_REFUSED.* setting=permission permission=s3:PutObject/,
    ],
    ['clock', (s) => (s.clockOffMillis = 3_600_000), /BUCKET_REFUSED.* setting=clock offByMillis=/],
  ])('%s is named when an engine opens', async (_, spoil, line) => {
    const server = await s3Server({ buckets: THREE });
    spoil(server);
    expect(await failureOf(append(bucketsOf(server)))).toMatch(line);
  });

  it('endpoint is named where nobody answers, by whatever is run', async () => {
    await s3Server();
    const closed = await S3Server.start();
    const { endpoint } = closed;
    await closed.close();
    const where = bucketsOf({ endpoint });
    const line = /BUCKET_UNAVAILABLE.*setting=endpoint/;
    expect(await failureOf(append(where))).toMatch(line);
    // A process that a demo started says so to its parent.
    const demo = await runOnS3(['demo', '--seconds', '1', '--json', ...where]);
    expect([demo.code, demo.stdout]).toEqual([4, '']);
    expect(JSON.parse(demo.stderr)).toMatchObject({ error: { code: 'BUCKET_UNAVAILABLE' } });
    expect(demo.stderr).toContain('setting=endpoint');
  });

  it('certificate of an authority that nobody knows is refused, and taken from caFile', async () => {
    const server = await s3Server({
      buckets: THREE,
      tls: { key: pem('key'), cert: pem('cert') },
    });
    const line = /BUCKET_REFUSED.* setting=caFile\b/;
    expect(await failureOf(append(bucketsOf(server)))).toMatch(line);
    const file = settingsFile({
      region: TEST_REGION,
      endpoint: server.endpoint,
      caFile: new URL('../fixtures/tls/cert.pem', import.meta.url).pathname,
      buckets: THREE.map((bucket) => ({ bucket })),
    });
    const root = join(temporaryFolder(), 'data');
    const where = ['--s3', file, '--root', root];
    const appended = await runOnS3(['append', '--stream', 's', ...where], 'one\n');
    expect(appended.code, appended.stderr).toBe(0);
    // The SDK trusts the same authority.
    const checked = await runOnS3(['buckets', 'check', ...where]);
    expect(checked.code, checked.stdout).toBe(0);
  });

  it('is named to who only reads', async () => {
    const server = await s3Server({ buckets: THREE });
    const where = [...bucketsOf(server), '--root', join(temporaryFolder(), 'data')];
    const appended = await runOnS3(['append', '--stream', 's', ...where], 'one\n');
    expect(appended.code, appended.stderr).toBe(0);
    server.credentials = { ...server.credentials, secretAccessKey: 'another' };
    const explained = await runOnS3(['explain', 'main', '0', '0', ...where]);
    expect(explained.stdout).toContain('undecided');
    expect(explained.stdout).toContain('setting=secretAccessKey');
    const refused = /^asterlog: BUCKET_REFUSED [^\n]* setting=secretAccessKey[^\n]*\n$/;
    // It is not tried again until a deadline passes, which would be another code.
    for (const args of [
      ['read', 's'],
      ['tail', 's'],
    ]) {
      const finished = await runOnS3([...args, ...where]);
      expect(finished, args[0]).toMatchObject({ code: 2, stdout: '' });
      expect(finished.stderr).toMatch(refused);
    }
    const checked = await runOnS3(['check', ...where]);
    expect(checked.code).toBe(2);
    expect(checked.stdout).toContain('BUCKET_REFUSED');
    expect(checked.stdout).toContain('setting=secretAccessKey');
    const told = await runOnS3(['buckets', 'check', ...where]);
    expect(told.code).toBe(2);
    expect(told.stdout).toContain('setting=secretAccessKey');
  });

  it('is named to who looks at an epoch that nobody has ended', async () => {
    const server = await s3Server({ buckets: THREE });
    const where = [...bucketsOf(server), '--root', join(temporaryFolder(), 'data')];
    const writing = start(['append', '--stream', 's', ...where]);
    writing.child.stdin?.write('one\n');
    await eventually(() => {
      const stored = THREE.filter((name) =>
        [...server.bucket(name).objects.keys()].some((key) => key.includes('/main/')),
      );
      expect(stored, writing.stdout()).toHaveLength(3);
    });
    writing.child.kill('SIGKILL');
    await writing.finished;
    expect((await runOnS3(['read', 's', ...where])).stdout).toBe('one\n');
    server.denied.add('s3:GetObject');
    const read = await runOnS3(['read', 's', ...where]);
    // Without an answer it must not seem empty.
    expect(read).toMatchObject({ code: 2, stdout: '' });
    expect(read.stderr).toContain(
      'setting=permission permission=s3:GetObject alsoNeeded=s3:ListBucket',
    );
    const status = await runOnS3(['status', ...where]);
    expect(status.code).toBe(2);
    expect(status.stdout).toContain('star main: 1 epochs');
    expect(status.stderr).toMatch(/^asterlog: BUCKET_REFUSED [^\n]* setting=permission[^\n]*\n$/);
    const fence = await runOnS3(['fence', 'main', '0', '--timeout', '3s', ...where]);
    expect(fence.code).toBe(4);
    expect(fence.stderr).toContain('setting=permission');
  });

  it('variable that is not set is named', async () => {
    const server = await s3Server({ buckets: THREE });
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', undefined);
    const line = /BUCKET_REFUSED.* setting=credentials variable=AWS_SECRET_ACCESS_KEY/;
    expect(await failureOf(append(bucketsOf(server)))).toMatch(line);
  });
});
