/** Command lines on buckets of strict S3 servers in the process of the test. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, vi } from 'vitest';
import { S3Server, TEST_REGION, type S3ServerOptions } from '../support/s3/server.ts';
import { run, temporaryFolder, type Finished } from './support.ts';

/** Whatever goes wrong, this is never printed. */
const SECRET = 'kB7+do/not/print/this/secret/key0123456789';
const SESSION = 'SessionTokenThatNobodyMayRead==';

export async function s3Server(options: S3ServerOptions = {}): Promise<S3Server> {
  const server = await S3Server.start(options);
  server.credentials = {
    accessKeyId: 'AKTEST',
    secretAccessKey: SECRET,
    sessionToken: SESSION,
  };
  onTestFinished(() => server.close());
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKTEST');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', SECRET);
  vi.stubEnv('AWS_SESSION_TOKEN', SESSION);
  onTestFinished(() => void vi.unstubAllEnvs());
  return server;
}

/** Buckets `a`, `b` and `c` of one server, as options. */
export function bucketsOf({ endpoint }: Pick<S3Server, 'endpoint'>, prefix = 'log'): string[] {
  const urls = ['a', 'b', 'c'].map((name) => `s3://bucket-${name}/${prefix}`);
  return ['--s3', urls.join(','), '--endpoint', endpoint, '--region', TEST_REGION];
}

export const THREE = ['bucket-a', 'bucket-b', 'bucket-c'];

/** A file with settings, or with any other text. */
export function settingsFile(settings: object | string): string {
  const file = join(temporaryFolder(), 's3.json');
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings));
  return file;
}

/** Runs to the end, and sees that no secret is in what it printed. */
export async function runOnS3(args: readonly string[], input = ''): Promise<Finished> {
  const finished = await run(args, input);
  const printed = finished.stdout + finished.stderr;
  for (const secret of [SECRET, SESSION]) expect(printed).not.toContain(secret);
  return finished;
}
