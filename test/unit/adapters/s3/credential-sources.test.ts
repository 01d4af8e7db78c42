import { inspect } from 'node:util';
import { afterEach, expect, test, vi } from 'vitest';
import { credentialSource } from '../../../../src/adapters/s3/credential-sources.ts';

const NAMES = {
  from: 'environment',
  accessKeyId: 'TEST_KEY',
  secretAccessKey: 'TEST_SECRET',
  sessionToken: 'TEST_TOKEN',
} as const;

afterEach(() => vi.unstubAllEnvs());

test('the environment is read when credentials are asked for', async () => {
  const source = credentialSource(NAMES);
  await expect(source()).rejects.toMatchObject({
    code: 'BUCKET_REFUSED',
    details: { setting: 'credentials', variable: 'TEST_KEY' },
  });
  vi.stubEnv('TEST_KEY', 'a');
  vi.stubEnv('TEST_SECRET', '');
  const refusal: unknown = await source().catch((error: unknown) => error);
  expect(refusal).toMatchObject({ details: { option: 'secretAccessKey' } });
  // It may be the secret itself.
  expect(inspect(refusal, { depth: 10, showHidden: true })).not.toContain('TEST_SECRET');
  vi.stubEnv('TEST_SECRET', 's');
  vi.stubEnv('TEST_TOKEN', '');
  const credentials = { accessKeyId: 'a', secretAccessKey: 's' };
  expect(await source()).toEqual({ ...credentials, sessionToken: undefined });
  vi.stubEnv('TEST_TOKEN', 't');
  expect(await source()).toEqual({ ...credentials, sessionToken: 't' });
});

test('the chain of the SDK is asked when it is wanted', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'chained');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 's');
  vi.stubEnv('AWS_SESSION_TOKEN', '');
  const source = credentialSource({ from: 'chain' });
  expect(await source()).toMatchObject({ accessKeyId: 'chained', secretAccessKey: 's' });
});
