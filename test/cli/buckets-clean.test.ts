/** `asterlog buckets clean`: what demos left is removed, and nothing that is not theirs. */
import { describe, expect, it, vi } from 'vitest';
import type { TestBucket } from '../support/s3/operations.ts';
import type { S3Server } from '../support/s3/server.ts';
import { eventually } from '../support/eventually.ts';
import { bucketsOf, runOnS3, s3Server, THREE } from './s3-support.ts';
import { documentOf, run, start } from './support.ts';

vi.setConfig({ testTimeout: 180_000 });

const DEMO = 'log/demo-0123456789ab/';
/** A process that nobody here can know. */
const ELSEWHERE = {
  bootId: 'boot',
  hostName: 'elsewhere',
  pidNamespace: 'pid:[1]',
  pid: 7,
  startTime: '9',
};
const DAYS_2 = 2 * 24 * 3_600_000;

const markOf = (demo: string, bucket = 'bucket-a', prefix = `log/${demo}/`): string =>
  JSON.stringify({ asterlog: 'demo', demo, bucket, prefix, process: ELSEWHERE });

/** Objects that were stored two days ago. */
function plant(bucket: TestBucket, objects: Readonly<Record<string, string>>): void {
  for (const [key, text] of Object.entries(objects)) {
    bucket.objects.set(key, Buffer.from(text));
    bucket.modifiedMillis.set(key, Date.now() - DAYS_2);
  }
}

/** The left-overs of one demo in bucket a, as many as more than one page has. */
async function leftOver(count = 1_200): Promise<{ server: S3Server; bucket: TestBucket }> {
  const server = await s3Server({ buckets: THREE });
  const bucket = server.bucket('bucket-a');
  plant(bucket, { [`${DEMO}demo.json`]: markOf('demo-0123456789ab') });
  for (let index = 0; index < count; index++) plant(bucket, { [`${DEMO}e${index}/slot`]: 'x' });
  return { server, bucket };
}

const clean = (server: S3Server, ...args: string[]) =>
  runOnS3(['buckets', 'clean', ...bucketsOf(server), ...args]);

describe('asterlog buckets clean', () => {
  it('removes what a demo left that was killed, but not while its objects are fresh', async () => {
    const server = await s3Server({ buckets: THREE });
    const demo = start(['demo', '--seconds', '60', ...bucketsOf(server)]);
    await eventually(() => {
      for (const name of THREE) expect(server.bucket(name).objects.size).toBeGreaterThan(10);
    });
    const alive = documentOf(await clean(server, '--json', '--idle', '0s'));
    const kept = { demos: [{ outcome: 'kept', why: 'its demo runs' }] };
    expect(alive).toMatchObject({ ok: true, buckets: [kept, kept, kept] });
    demo.child.kill('SIGKILL');
    await demo.finished;
    const fresh = documentOf(await clean(server, '--json'));
    const written = { demos: [{ outcome: 'kept', why: 'it was written to a moment ago' }] };
    expect(fresh).toMatchObject({ buckets: [written, written, written] });
    // Its writer ends what it has under way.
    await eventually(async () => {
      const finished = await clean(server, '--idle', '5s');
      expect(finished.stdout).toMatch(/log\/demo-[0-9a-f]{12}\/ .* removed\n/);
    });
    await eventually(async () => {
      await clean(server, '--idle', '5s');
      for (const name of THREE) expect([...server.bucket(name).objects.keys()]).toEqual([]);
    });
  });

  it('removes more than one page, the mark last, and says how far it is', async () => {
    const { server, bucket } = await leftOver();
    plant(bucket, { 'log/other': 'mine', 'demo-0123456789ab/x': 'of another prefix' });
    const planned = documentOf(await clean(server, '--json', '--dry-run'));
    expect(planned).toMatchObject({
      ok: true,
      dryRun: true,
      buckets: [
        { demos: [{ prefix: DEMO, outcome: 'removable', objects: 1_201 }] },
        { demos: [] },
        { demos: [] },
      ],
    });
    expect(bucket.objects.size).toBe(1_203);
    const finished = await clean(server);
    expect(finished.code, finished.stderr).toBe(0);
    expect(finished.stderr).toBe(`s3://bucket-a/log/ ${DEMO}: removed\n`);
    expect(finished.stdout).toMatch(/1,?201 .* removed\n/);
    expect([...bucket.objects.keys()].sort()).toEqual(['demo-0123456789ab/x', 'log/other']);
    const deletions = server.log.filter(({ method }) => method === 'POST');
    expect(deletions).toHaveLength(3);
    expect((await clean(server)).stdout).toBe('no demo left anything here\n');
  });

  it('keeps whatever is not a demo of that name beyond doubt', async () => {
    const { server, bucket } = await leftOver(1);
    bucket.objects.clear();
    const now = Date.now();
    plant(bucket, {
      'log/demo-000000000000/e1/slot': 'without a mark',
      'log/demo-111111111111/demo.json': markOf('demo-222222222222'),
      'log/demo-333333333333/demo.json': 'no JSON',
      'log/demo-444444444444/demo.json': markOf('demo-444444444444'),
      'log/demo-55555555555/demo.json': markOf('demo-55555555555'),
      'log/demo-777777777777/demo.json': markOf('demo-777777777777', 'bucket-b'),
      'log/demo-888888888888/demo.json': markOf(
        'demo-888888888888',
        'bucket-a',
        'demo-888888888888/',
      ),
      'log/demo-files/demo.json': markOf('demo-files'),
      'log/demo-666666666666': 'no folder',
    });
    bucket.modifiedMillis.set('log/demo-444444444444/demo.json', now - 3_600_000);
    const keys = [...bucket.objects.keys()];
    const { buckets } = documentOf(await clean(server, '--json', '--idle', '0s')) as {
      buckets: [{ demos: { prefix: string; outcome: string; why: string }[] }];
    };
    expect(buckets[0].demos.map(({ prefix, outcome, why }) => [prefix, outcome, why])).toEqual([
      ['log/demo-000000000000/', 'kept', 'no mark says that it is of a demo'],
      ['log/demo-111111111111/', 'kept', 'no mark says that it is of a demo'],
      ['log/demo-333333333333/', 'kept', 'no mark says that it is of a demo'],
      ['log/demo-444444444444/', 'kept', 'its demo ran elsewhere, and began less than a day ago'],
      ['log/demo-777777777777/', 'kept', 'no mark says that it is of a demo'],
      ['log/demo-888888888888/', 'kept', 'no mark says that it is of a demo'],
    ]);
    expect([...bucket.objects.keys()]).toEqual(keys);
    expect(server.log.every(({ method }) => method !== 'POST' && method !== 'DELETE')).toBe(true);
  });

  it('says what keeps it from it, and can be run again', async () => {
    const { server, bucket } = await leftOver(3);
    server.denied.add(`s3:DeleteObject ${DEMO}e1/slot`);
    const refused = await clean(server);
    expect(refused.code).toBe(2);
    expect(refused.stdout).toContain('setting=permission permission=s3:DeleteObject');
    expect([...bucket.objects.keys()].sort()).toEqual([`${DEMO}demo.json`, `${DEMO}e1/slot`]);
    server.denied.clear();
    server.denied.add('s3:ListBucket');
    const unlisted = await clean(server, '--json');
    expect(unlisted.code).toBe(2);
    expect(JSON.parse(unlisted.stdout)).toMatchObject({
      ok: false,
      buckets: [
        { demos: [], error: { code: 'BUCKET_REFUSED', details: { call: 'list' } } },
        {},
        {},
      ],
    });
    server.denied.clear();
    server.faults.add({
      when: ({ method }) => method === 'POST',
      times: 1,
      fault: { kind: 'answer', status: 503, code: 'SlowDown' },
    });
    expect((await clean(server)).code).toBe(4);
    expect((await clean(server)).code).toBe(0);
    expect(bucket.objects.size).toBe(0);
  });

  it.each([
    [
      'folders that are none',
      (query) => query.has('delimiter'),
      '<CommonPrefixes><Prefix>log/demo-0123456789abc</Prefix></CommonPrefixes>',
      { ok: true, buckets: [{ demos: [] }, {}, {}] },
    ],
    [
      'objects without the mark that it shows',
      (query) => !query.has('delimiter'),
      `<Contents><Key>${DEMO}e0/slot</Key><Size>1</Size>
        <LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>`,
      { ok: true, buckets: [{ demos: [{ outcome: 'kept' }] }, {}, {}] },
    ],
    [
      'a page without a key, of several',
      (query) => !query.has('delimiter'),
      '<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>',
      { ok: false, buckets: [{ demos: [{ outcome: 'failed' }] }, {}, {}] },
    ],
  ] satisfies [string, (query: URLSearchParams) => boolean, string, object][])(
    'removes nothing where a server lists %s',
    async (_, isList, listed, report) => {
      const { server, bucket } = await leftOver(2);
      plant(bucket, { 'log/demo-0123456789abc/x': 'mine', 'log/demo-0123456789abcd': 'mine' });
      const keys = [...bucket.objects.keys()];
      server.faults.add({
        when: ({ method, query, bucket: name }) =>
          method === 'GET' && name === 'bucket-a' && query.has('list-type') && isList(query),
        fault: {
          kind: 'answer',
          status: 200,
          body: `<ListBucketResult>${listed}</ListBucketResult>`,
        },
      });
      const cleaned = await clean(server, '--json', '--idle', '0s');
      expect(JSON.parse(cleaned.stdout)).toMatchObject(report);
      expect([...bucket.objects.keys()]).toEqual(keys);
    },
  );

  it('ends within its deadline', async () => {
    const { server } = await leftOver(1);
    server.faults.add({ fault: { kind: 'stall' } });
    const { code, stdout } = await clean(server, '--json', '--timeout', '2s');
    expect(code).toBe(4);
    expect(JSON.parse(stdout)).toMatchObject({ ok: false });
  });

  it('is about buckets on S3 only', async () => {
    const { code, stderr } = await run(['buckets', 'clean']);
    expect(code).toBe(2);
    expect(stderr).toContain('INVALID_OPTION demos leave objects in buckets on S3 only option=s3');
  });
});
