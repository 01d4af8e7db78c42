/** `asterlog buckets` over S3 servers and directories, and what it says where the SDK is not installed. */
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { TEST_REGION } from '../support/s3/server.ts';
import { bucketsOf, runOnS3, s3Server, settingsFile } from './s3-support.ts';
import { documentOf, run, temporaryFolder } from './support.ts';

vi.setConfig({ testTimeout: 120_000 });

/** Resolves everything but the SDK, as where nobody installed it. */
const WITHOUT_SDK = `--import=data:text/javascript,${encodeURIComponent(
  `import { register } from 'node:module';
   register('data:text/javascript,' + encodeURIComponent(\`
     export async function resolve(name, context, next) {
       if (name === '@aws-sdk/client-s3') throw new Error('not installed');
       return next(name, context);
     }\`));`,
)}`;

describe('asterlog buckets', () => {
  it('makes what is missing, and then finds it in order', async () => {
    const server = await s3Server({ buckets: ['bucket-a'] });
    const where = [...bucketsOf(server), '--root', join(temporaryFolder(), 'data')];
    const planned = await runOnS3(['buckets', 'init', '--dry-run', ...where]);
    expect(planned.code, planned.stderr).toBe(0);
    expect(planned.stdout).toMatch(/s3:\/\/bucket-b\/log\/ .* missing, would be created\n/);
    expect(server.buckets.size).toBe(1);
    const made = await runOnS3(['buckets', 'init', '--json', ...where]);
    expect(made.stderr).toBe('');
    expect(documentOf(made)).toMatchObject({
      ok: true,
      dryRun: false,
      buckets: [{ outcome: 'exists' }, { outcome: 'created' }, { outcome: 'created' }],
    });
    const checked = await runOnS3(['buckets', 'check', ...where]);
    expect(checked.code, checked.stderr).toBe(0);
    expect(checked.stderr).toContain('s3://bucket-c/log/ condition: ok\n');
    expect(checked.stdout).toMatch(/^BUCKET +CHECK +VERDICT +FOUND\n/);
    expect(checked.stdout).toMatch(/s3:\/\/bucket-a\/log\/ +versioning +ok +off\n/);
    expect(checked.stdout).toContain('\nall buckets keep what an engine needs\n');
    expect(checked.stdout + checked.stderr).not.toContain('\u001b');
  });

  it('names what is wrong with each bucket and what to do, and fails', async () => {
    const server = await s3Server({ buckets: ['bucket-a', 'bucket-b'] });
    server.bucket('bucket-a').versioning = 'Enabled';
    server.bucket('bucket-b').creation = 'ignores';
    const where = [...bucketsOf(server), '--root', join(temporaryFolder(), 'data')];
    const text = await runOnS3(['buckets', 'check', ...where]);
    expect(text.code).toBe(2);
    expect(text.stdout).toMatch(/s3:\/\/bucket-a\/log\/ +versioning +REFUSED/);
    expect(text.stdout).toContain('take a bucket that never had versions');
    expect(text.stdout).toMatch(/s3:\/\/bucket-b\/log\/ +condition +REFUSED/);
    expect(text.stdout).toContain('use a server that keeps If-None-Match: *');
    expect(text.stdout).toMatch(/s3:\/\/bucket-c\/log\/ +reach +REFUSED/);
    expect(text.stdout).toContain('create it: asterlog buckets init');
    const json = await runOnS3(['buckets', 'check', '--json', ...where]);
    expect([json.code, json.stderr]).toEqual([2, '']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: false,
      buckets: [{ ok: false }, { ok: false }, { ok: false }],
    });
  });

  it('says what to install where the SDK is not, while all else works', async () => {
    const server = await s3Server({ buckets: ['bucket-a', 'bucket-b', 'bucket-c'] });
    vi.stubEnv('NODE_OPTIONS', WITHOUT_SDK);
    const where = [...bucketsOf(server), '--root', join(temporaryFolder(), 'data')];
    const { code, stdout, stderr } = await runOnS3(['buckets', 'check', ...where]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^asterlog: BUCKET_REFUSED [^\n]+\n$/);
    expect(stderr).toContain('install="npm install @aws-sdk/client-s3"');
    const append = await runOnS3(['append', '--stream', 's', ...where], 'one\n');
    expect(append.code, append.stderr).toBe(0);
  });

  it('looks after directories as well', async () => {
    const where = ['--root', join(temporaryFolder(), 'data')];
    expect((await run(['buckets', 'check', ...where])).code).toBe(2);
    expect((await run(['buckets', 'init', ...where])).code).toBe(0);
    const checked = await run(['buckets', 'check', '--json', ...where]);
    expect(documentOf(checked)).toMatchObject({ ok: true });
  });
});

describe('a command on buckets that do not answer', () => {
  it('ends within its deadline', async () => {
    const server = await s3Server({ buckets: ['bucket-a'] });
    server.faults.add({ fault: { kind: 'stall' } });
    const file = settingsFile({
      region: TEST_REGION,
      endpoint: server.endpoint,
      buckets: [{ bucket: 'bucket-a' }],
    });
    const where = ['--s3', file, '--root', join(temporaryFolder(), 'data'), '--timeout', '2s'];
    const begunAt = performance.now();
    const { code, stdout } = await runOnS3(['buckets', 'check', '--json', ...where]);
    expect(code).toBe(4);
    // Sooner than one request would give up by itself.
    expect(performance.now() - begunAt).toBeLessThan(30_000);
    const { buckets } = JSON.parse(stdout) as { buckets: { checks: object[] }[] };
    expect(buckets[0]!.checks[0]).toMatchObject({ check: 'reach', verdict: 'unknown' });
  });
});
