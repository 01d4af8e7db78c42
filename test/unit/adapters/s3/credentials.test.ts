import { expect, test, vi } from 'vitest';
import { CredentialCache } from '../../../../src/adapters/s3/credentials.ts';
import type { Credentials } from '../../../../src/adapters/s3/sigv4.ts';
import { eventually } from '../../../support/eventually.ts';

const MINUTE = 60_000;

function world(source: () => Promise<Credentials>) {
  const time = { now: 1_000_000_000_000 };
  return { time, cache: new CredentialCache(source, () => time.now) };
}

test('credentials are kept, asked for again before they end, and waited for only afterwards', async () => {
  let issued = 0;
  const source = vi.fn(async () => ({
    accessKeyId: `key-${++issued}`,
    secretAccessKey: 's',
    expiresAtMillis: time.now + 60 * MINUTE,
  }));
  const { time, cache } = world(source);
  expect((await cache.get()).accessKeyId).toBe('key-1');
  const atHand = (): string => {
    const got = cache.get();
    return got instanceof Promise ? 'asking' : got.accessKeyId;
  };
  time.now += 54 * MINUTE;
  expect(atHand()).toBe('key-1');
  time.now += 2 * MINUTE;
  expect(atHand()).toBe('key-1');
  expect(source).toHaveBeenCalledTimes(2);
  await eventually(() => expect(atHand()).toBe('key-2'));
  time.now += 61 * MINUTE;
  expect(atHand()).toBe('asking');
  expect((await cache.get()).accessKeyId).toBe('key-3');
});

test('many that wait ask once', async () => {
  const source = vi.fn(async () => ({ accessKeyId: 'a', secretAccessKey: 's' }));
  const { cache } = world(source);
  await Promise.all([cache.get(), cache.get(), cache.get()]);
  expect(source).toHaveBeenCalledTimes(1);
});

test('those that the server calls expired are dropped, but not at every request', async () => {
  const source = vi.fn(async () => ({ accessKeyId: 'a', secretAccessKey: 's' }));
  const { time, cache } = world(source);
  const first = await cache.get();
  cache.expired(first);
  expect(cache.get()).toBe(first);
  time.now += 2_000;
  cache.expired(first);
  const second = await cache.get();
  expect(source).toHaveBeenCalledTimes(2);
  time.now += 2_000;
  cache.expired(first);
  expect(cache.get()).toBe(second);
});

test('a source that fails is refused without what it said', async () => {
  for (const source of [
    () => Promise.reject(new TypeError('the secret is abc')),
    async () => ({ accessKeyId: '', secretAccessKey: 's' }),
  ]) {
    const { cache } = world(source);
    const error: unknown = await Promise.resolve(cache.get()).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'BUCKET_REFUSED', details: { setting: 'credentials' } });
    expect((error as Error).message).not.toContain('abc');
    expect((error as Error).cause).toBeUndefined();
  }
});

test.each([
  ['accessKeyId', { accessKeyId: 'AKTEST\n' }],
  ['accessKeyId', { accessKeyId: ' AKTEST' }],
  ['sessionToken', { sessionToken: 'token\r\nx-other: 1' }],
  ['sessionToken', { sessionToken: 'tok\u2713n' }],
])('%s that no header can carry is refused and not shown', async (setting, wrong) => {
  const { cache } = world(async () => ({ accessKeyId: 'AKTEST', secretAccessKey: 's', ...wrong }));
  const error: unknown = await Promise.resolve(cache.get()).catch((e: unknown) => e);
  expect(error).toMatchObject({
    code: 'BUCKET_REFUSED',
    retryable: false,
    sideEffects: 'none',
    details: { setting },
  });
  for (const value of Object.values(wrong)) {
    expect(JSON.stringify(error)).not.toContain(JSON.stringify(value).slice(1, -1));
  }
});
