/** Folders of a test process: what one left that was killed is removed by the next. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'asterlog-zone-';

export async function scratchFolder(): Promise<string> {
  const names = await readdir(tmpdir());
  for (const name of names.filter((entry) => entry.startsWith(PREFIX))) {
    const pid = Number(name.slice(PREFIX.length).split('-')[0]);
    if (!isAlive(pid)) await removeFolder(join(tmpdir(), name));
  }
  return mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
}

export async function removeFolder(path: string): Promise<void> {
  // What was just killed may still be writing.
  await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
