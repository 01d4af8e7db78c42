/** Every command on buckets of an S3 server, as on directories. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { TEST_REGION } from '../support/s3/server.ts';
import { bucketsOf, runOnS3, s3Server, settingsFile, THREE } from './s3-support.ts';
import { documentOf, freshRoot, temporaryFolder } from './support.ts';

// Many processes, one after the other.
vi.setConfig({ testTimeout: 180_000 });

describe('the demo on S3', () => {
  it('kills a writer and loses nothing, and leaves no object behind', async () => {
    const server = await s3Server({ buckets: THREE });
    const finished = await runOnS3(['demo', '--json', '--seconds', '3', ...bucketsOf(server)]);
    expect(finished.stderr).toBe('');
    const figures = documentOf(finished);
    expect(figures).toMatchObject({ ok: true, lost: 0, duplicated: 0, outOfOrder: 0, torn: 0 });
    expect(figures['records']).toBeGreaterThan(0);
    expect(existsSync(figures['root'] as string)).toBe(false);
    for (const name of THREE) {
      const keys = server.log.filter(({ bucket, method }) => bucket === name && method === 'PUT');
      expect(keys.length).toBeGreaterThan(64);
      expect(keys.every(({ key }) => /^log\/demo-[0-9a-f]{12}\//.test(key))).toBe(true);
      expect([...server.bucket(name).objects.keys()]).toEqual([]);
    }
  });

  it('shows a takeover, of buckets in a file of settings', async () => {
    const server = await s3Server({ buckets: THREE });
    const { endpoint } = server;
    const root = join(temporaryFolder(), 'unused');
    const file = settingsFile({
      region: TEST_REGION,
      endpoint,
      buckets: THREE.map((bucket) => ({ bucket })),
      metastore: { root },
    });
    const finished = await runOnS3([
      'demo',
      '--takeover',
      '--json',
      '--seconds',
      '4',
      '--s3',
      file,
    ]);
    expect(documentOf(finished)).toMatchObject({ ok: true, lost: 0, reused: 0, producerErrors: 0 });
    // A demo leaves the data of its user alone.
    expect(existsSync(root)).toBe(false);
  });

  it('keeps its data where the caller wants it, for others to go on with', async () => {
    const server = await s3Server({ buckets: THREE });
    const where = [...freshRoot(), ...bucketsOf(server)];
    const { code, stderr } = await runOnS3(['demo', '--seconds', '1', ...where]);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('the data is in s3://bucket-a/log/, ');
    expect((await runOnS3(['check', ...where])).code).toBe(0);
  });
});

describe('commands on S3', () => {
  it('write, read, look and fence, with settings from a file', async () => {
    const server = await s3Server({ buckets: THREE });
    const file = settingsFile({
      region: TEST_REGION,
      endpoint: server.endpoint,
      buckets: THREE.map((bucket) => ({ bucket, prefix: 'db/' })),
      metastore: { root: join(temporaryFolder(), 'data') },
    });
    const at = ['--s3', file];
    const append = await runOnS3(['append', '--stream', 's', '--json', ...at], 'one\ntwo\n');
    expect(documentOf(append)).toMatchObject({ records: 2, start: { seqNum: 0 } });
    expect((await runOnS3(['read', 's', ...at])).stdout).toBe('one\ntwo\n');
    expect(documentOf(await runOnS3(['streams', '--json', ...at]))).toMatchObject({
      streams: [{ name: 's' }],
    });
    expect(documentOf(await runOnS3(['status', '--json', ...at]))).toMatchObject({
      star: 'main',
      epochs: [{ epoch: 0, buckets: 3, copyQuorum: 2 }],
    });
    expect((await runOnS3(['check', ...at])).stdout).toContain('all is well: 2 records');
    const explained = await runOnS3(['explain', 'main', '0', '0', ...at]);
    expect(explained.code, explained.stderr).toBe(0);
    expect(explained.stdout).toContain('s3://bucket-a/db/');
    expect((await runOnS3(['fence', 'main', '0', ...at])).code).toBe(0);
    expect((await runOnS3(['set-token', 's', 'me', ...at])).code).toBe(0);
    const refused = await runOnS3(
      ['append', '--stream', 's', '--fencing-token', 'x', ...at],
      '3\n',
    );
    expect(refused.code).toBe(3);
    expect((await runOnS3(['release', 's', ...at])).stdout).toContain('released');
    for (const name of THREE) {
      const keys = [...server.bucket(name).objects.keys()];
      expect(keys.length).toBeGreaterThan(1);
      expect(keys.every((key) => key.startsWith('db/'))).toBe(true);
    }
  });
});
