/** Servers that are not quite S3, as strict servers of the tests: none of them is a real one. */
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { expressControlEndpoint } from '../../../src/adapters/s3/address.ts';
import type { S3BucketStore } from '../../../src/adapters/s3/bucket-store.ts';
import type { TestDialect } from '../../support/s3/dialects.ts';
import { expectUnknown, pattern } from './contract.ts';
import { s3Fixture, type S3Fixture } from './s3-fixture.ts';

let fixture: S3Fixture;
afterEach(() => fixture.dispose());

async function start(dialect: TestDialect, readOnly = false): Promise<S3BucketStore> {
  fixture = await s3Fixture({ dialect }, { dialect });
  return fixture.open({ readOnly });
}

const BODY = pattern(1, 300);
const expiring =
  '<Rule><ID>r1</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>';

describe('directory buckets', () => {
  it('take one session for many calls, and another one once it has ended', async () => {
    const store = await start('s3-express');
    const { server } = fixture;
    const keys = Array.from({ length: 20 }, (_, index) => `a/${index}`);
    const outcomes = await Promise.all(keys.map((key) => store.createOnly(key, BODY)));
    expect(outcomes.every(({ kind }) => kind === 'created')).toBe(true);
    expect(server.sessions.given).toMatchObject([{ mode: 'ReadWrite' }]);
    for (const session of server.sessions.given) session.endsAt = 0;
    await expect
      .poll(async () => (await store.readHead('a/1', 10)).kind, { timeout: 20_000, interval: 300 })
      .toBe('found');
    expect(server.sessions.given).toHaveLength(2);
  });

  it('are asked for a new session while the old one is good', async () => {
    const store = await start('s3-express');
    const { server } = fixture;
    server.sessions.lastsMillis = 30_000;
    await store.createOnly('a/1', BODY);
    await expect
      .poll(
        async () => {
          expect((await store.readHead('a/1', 10)).kind).toBe('found');
          return server.sessions.given.length;
        },
        { timeout: 20_000, interval: 300 },
      )
      .toBeGreaterThan(1);
  });

  it('are read with a session that can change nothing', async () => {
    const store = await start('s3-express', true);
    expect(await store.readHead('a/1', 10)).toEqual({ kind: 'absent' });
    expect(fixture.server.sessions.given).toMatchObject([{ mode: 'ReadOnly' }]);
  });

  it('refuse credentials that may open none, and say so', async () => {
    const store = await start('s3-express');
    fixture.server.faults.add({
      when: ({ query }) => query.has('session'),
      fault: { kind: 'answer', status: 403, code: 'AccessDenied' },
    });
    expect(await store.createOnly('a/1', BODY)).toMatchObject({
      kind: 'refused',
      cause: { details: { setting: 'permission', permission: 's3express:CreateSession' } },
    });
  });

  it.each([
    '<html></html>',
    '<CreateSessionResult><AccessKeyId>a</AccessKeyId></CreateSessionResult>',
  ])('leave it open where the answer is no session (%s)', async (body) => {
    const store = await start('s3-express');
    fixture.server.faults.add({
      when: ({ query }) => query.has('session'),
      fault: { kind: 'answer', status: 200, body },
    });
    const outcome = await store.createOnly('a/1', BODY);
    expectUnknown(outcome, 'BUCKET_UNAVAILABLE');
  });

  it('show no secret of a session', async () => {
    const store = await start('s3-express');
    const { server } = fixture;
    await store.createOnly('a/1', BODY);
    server.faults.add({ fault: { kind: 'answer', status: 500, code: 'InternalError' } });
    const text = inspect(await store.readHead('a/1', 10), { depth: 20, showHidden: true });
    const { secretAccessKey, sessionToken } = server.sessions.given[0]!;
    expect(text).not.toContain(secretAccessKey);
    expect(text).not.toContain(sessionToken!);
  });

  it('list in no order, and are listed in order', async () => {
    const store = await start('s3-express');
    const keys = Array.from({ length: 40 }, (_, index) => `k/${index + 10}`);
    for (const key of keys) fixture.server.bucket().objects.set(key, Buffer.from(key));
    const found: string[] = [];
    for (let startAfter = ''; ;) {
      const page = await store.list('k/', { startAfter, limit: 13 });
      if (page.kind !== 'listed') throw page.cause;
      found.push(...page.keys);
      if (!page.more) break;
      startAfter = page.keys.at(-1)!;
    }
    expect(found).toEqual(keys);
  });

  it('are refused with a rule that removes objects, of which another endpoint knows', async () => {
    const store = await start('s3-express');
    fixture.server.bucket().lifecycle = expiring;
    const details = { setting: 'lifecycle', value: 'r1' };
    expect(await store.probe()).toMatchObject({ kind: 'refused', cause: { details } });
    expect(expressControlEndpoint('https://s3express-use1-az4.us-east-1.amazonaws.com')).toBe(
      'https://s3express-control.us-east-1.amazonaws.com',
    );
  });
});

describe('the XML interface of GCS', () => {
  const rule = (action: string, condition: string): string =>
    `<Rule><Action>${action}</Action><Condition>${condition}</Condition></Rule>`;
  const deleting = (condition: string): string => rule('<Delete/>', condition);

  it.each([
    ['all objects', deleting('<Age>30</Age>')],
    [
      'those of its prefix',
      deleting('<MatchesPrefix>x/</MatchesPrefix><MatchesPrefix>log</MatchesPrefix>'),
    ],
  ])('is refused with a rule that deletes %s', async (_, lifecycle) => {
    await start('gcs');
    const store = await fixture.open({ prefix: 'logs/' });
    fixture.server.bucket().lifecycle = lifecycle;
    const details = { setting: 'lifecycle', value: 'rule 1' };
    expect(await store.probe()).toMatchObject({ kind: 'refused', cause: { details } });
  });

  it.each([
    ['other objects', deleting('<MatchesPrefix>other/</MatchesPrefix>')],
    ['nothing', rule('<SetStorageClass>ARCHIVE</SetStorageClass>', '<Age>30</Age>')],
  ])('is accepted with a rule that deletes %s', async (_, lifecycle) => {
    await start('gcs');
    const store = await fixture.open({ prefix: 'logs/' });
    fixture.server.bucket().lifecycle = lifecycle;
    expect(await store.probe()).toEqual({ kind: 'accepted' });
  });

  it('is accepted though it takes one write of a key a second', async () => {
    const store = await start('gcs');
    fixture.server.sameKeyPauseMillis = 1_000;
    expect(await store.probe()).toEqual({ kind: 'accepted' });
  });

  it('is refused to a store that takes it for plain S3, and the other way round', async () => {
    await start('gcs');
    const plain = await fixture.open({ dialect: 's3' });
    expect(await plain.createOnly('a/1', BODY)).toMatchObject({ kind: 'refused' });
    await fixture.dispose();
    fixture = await s3Fixture();
    const other = await fixture.open({ dialect: 'gcs' });
    expect(await other.createOnly('a/1', BODY)).toMatchObject({ kind: 'refused' });
    expect(fixture.server.bucket().objects.size).toBe(0);
  });
});
