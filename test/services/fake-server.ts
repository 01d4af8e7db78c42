/** A server from npm that takes requests of S3 and ignores the condition of a creation. */
import { execFile } from 'node:child_process';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { checkDaemons, Daemon } from './daemon.ts';
import { freePorts } from './ports.ts';
import { removeFolder, scratchFolder } from './scratch.ts';

const run = promisify(execFile);

const FOLDER = fileURLToPath(new URL('fakes/', import.meta.url));
const PROGRAM = join(FOLDER, 'node_modules/s3rver/bin/s3rver.js');
const INSTALL_MILLIS = 120_000;
const START_MILLIS = 60_000;

/** Installs the package, apart from those of the product; tells why not, if that does not work. */
export async function installFake(): Promise<{ readonly reason: string } | undefined> {
  try {
    await checkDaemons();
    if (await isInstalled()) return undefined;
    const options = ['--prefix', FOLDER, '--ignore-scripts', '--no-fund', '--no-audit'];
    await run('npm', ['ci', ...options], { timeout: INSTALL_MILLIS });
    return undefined;
  } catch (error) {
    return { reason: String(error).split('\n').slice(0, 2).join(' ') };
  }
}

async function isInstalled(): Promise<boolean> {
  return access(PROGRAM).then(
    () => true,
    () => false,
  );
}

export interface FakeServer {
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  stop(): Promise<void>;
}

/** With one bucket. */
export async function startFake(bucket: string): Promise<FakeServer> {
  const folder = await scratchFolder();
  const port = await freePorts(1);
  const address = ['--address', '127.0.0.1', '--port', String(port)];
  const daemon = new Daemon(
    's3rver',
    [process.execPath, PROGRAM, ...address, '--directory', folder, '--configure-bucket', bucket],
    process.env,
  );
  const stop = async (): Promise<void> => {
    await daemon.kill();
    await removeFolder(folder);
  };
  const endpoint = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + START_MILLIS;
  for (;;) {
    const answers = await fetch(endpoint).then(
      async (answer) => (await answer.text()) !== '',
      () => false,
    );
    if (answers) break;
    if (daemon.isOver || performance.now() > deadline) {
      await stop();
      throw new Error(`the fake did not start: ${daemon.output}`);
    }
    await sleep(100);
  }
  return {
    endpoint,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    stop,
  };
}
