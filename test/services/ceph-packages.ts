/** Ceph from the packages of Debian, unpacked into a folder: nothing is installed. */
import { execFile } from 'node:child_process';
import { access, mkdir, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { checkDaemons } from './daemon.ts';

const run = promisify(execFile);

export interface Ceph {
  readonly libraries: string;
  /** In Python. */
  readonly adminProgram: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** Without a network it tries for long. */
const LIMITS = { timeout: 240_000, maxBuffer: 16 << 20 };
/** Kept from run to run. */
const FOLDER = process.env['ASTERLOG_SERVICES'] ?? join(tmpdir(), 'asterlog-services');

/** The packages, or why they cannot be had. */
export async function cephPackages(): Promise<Ceph | { readonly reason: string }> {
  const root = join(FOLDER, 'ceph');
  const libraries = join(root, 'usr/lib/x86_64-linux-gnu');
  try {
    await checkDaemons();
    const done = join(root, 'complete');
    if (!(await exists(done))) {
      await unpack(root);
      await writeFile(done, '');
    }
  } catch (error) {
    return { reason: String(error).split('\n').slice(0, 3).join(' ') };
  }
  return {
    libraries,
    adminProgram: join(root, 'usr/bin/ceph'),
    environment: {
      ...process.env,
      LD_LIBRARY_PATH: [
        libraries,
        join(libraries, 'ceph'),
        join(root, 'lib/x86_64-linux-gnu'),
      ].join(':'),
      PATH: `${join(root, 'usr/bin')}:${process.env['PATH'] ?? ''}`,
      PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
    },
  };
}

async function unpack(root: string): Promise<void> {
  if (process.arch !== 'x64' || process.platform !== 'linux') throw new Error('needs Linux on x64');
  const archives = join(FOLDER, 'archives');
  await mkdir(join(archives, 'partial'), { recursive: true });
  await mkdir(root, { recursive: true });
  await run('apt-get', ['update', '-qq'], LIMITS);
  const options = ['-y', '-qq', '--no-install-recommends', '--download-only'];
  const packages = ['radosgw', 'ceph-mon', 'ceph-osd'];
  const cache = ['-o', `Dir::Cache::archives=${archives}`];
  await run('apt-get', ['install', ...options, ...cache, ...packages], LIMITS);
  const files = (await readdir(archives)).filter((name) => name.endsWith('.deb'));
  for (const file of files) await run('dpkg', ['-x', join(archives, file), root]);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
