/** Folders of a test process: what one left that was killed is removed by the next. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'asterlog-scratch-';

export async function scratchFolder(): Promise<string> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const pid = Number(name.slice(PREFIX.length).split('-')[0]);
    if (!(await isAlive(pid))) await removeFolder(join(tmpdir(), name));
  }
  return mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
}

export async function removeFolder(path: string): Promise<void> {
  // What was just killed may still be writing.
  await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
  // One that nobody waited for has its number still.
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return !/\) Z /.test(stat);
}
