/**
 * What lies in the folder of a bucket: `layout.json`, `objects/` and `tmp/`. The layout file comes
 * before the first object and tells later versions how to read the rest.
 */
import { dirname } from 'node:path';
import { EngineError } from '../../lib/errors.ts';
import { codeOf } from './failure.ts';
import type { DirectoryFileSystem, SyncSite } from './file-system.ts';
import { readFile } from './read-object.ts';
import type { TempFiles } from './temp-files.ts';

const LAYOUT_VERSION = 1;
const LAYOUT_TEXT = `${JSON.stringify({ asterlog: 'bucket', layoutVersion: LAYOUT_VERSION })}\n`;
const LAYOUT_BYTES_MAX = 4096;

export const OBJECTS = 'objects';
export const TEMPS = 'tmp';
const LAYOUT = 'layout.json';

/**
 * Makes the folder and what belongs in it, or checks that they are of this version. Safe to run in
 * several processes at once. Durable when it resolves.
 *
 * @throws {EngineError} `LAYOUT_VERSION` for a folder of another version or with a damaged layout
 * file. Errors of the system pass through.
 */
export async function ensureLayout(
  fileSystem: DirectoryFileSystem,
  root: string,
  temps: TempFiles,
): Promise<void> {
  await makeFolder(fileSystem, root);
  const isNew = !(await hasLayout(fileSystem, root));
  await makeDirectory(fileSystem, `${root}/${OBJECTS}`);
  await makeDirectory(fileSystem, `${root}/${TEMPS}`);
  if (isNew) await writeLayout(fileSystem, root, temps);
  // Also when nothing is new: who made it may have died before this.
  await syncPath(fileSystem, root, 'root');
}

/**
 * Checks the folder of a bucket that must be there.
 *
 * @throws {EngineError} `LAYOUT_VERSION`, also when there is no layout file. Errors of the system
 * pass through.
 */
export async function checkLayout(fileSystem: DirectoryFileSystem, root: string): Promise<void> {
  await fileSystem.stat(root);
  checkLayoutText((await layoutText(fileSystem, root)) ?? '', root);
}

/** Makes the folder and the folders above it, each durable in its parent. */
async function makeFolder(fileSystem: DirectoryFileSystem, path: string): Promise<void> {
  const parent = dirname(path);
  if (parent === path) return;
  const existed = await exists(fileSystem, path);
  if (!existed) {
    await makeFolder(fileSystem, parent);
    await makeDirectory(fileSystem, path);
  }
  try {
    await syncPath(fileSystem, parent, 'above-root');
  } catch (error) {
    // Whoever may not read the parent did not make the folder: it is the administrator's.
    const code = codeOf(error);
    if (!existed || (code !== 'EACCES' && code !== 'EPERM')) throw error;
  }
}

async function hasLayout(fileSystem: DirectoryFileSystem, root: string): Promise<boolean> {
  const text = await layoutText(fileSystem, root);
  if (text !== undefined) {
    checkLayoutText(text, root);
    return true;
  }
  const objects = await fileSystem.readdir(`${root}/${OBJECTS}`).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  });
  if (objects.length === 0) return false;
  throw layoutError(root, 'folder holds objects but no layout file', 'none');
}

/** Creates the file in the way of objects: nobody ever sees half of it. */
async function writeLayout(
  fileSystem: DirectoryFileSystem,
  root: string,
  temps: TempFiles,
): Promise<void> {
  const path = temps.nextPath();
  const temp = { path, fd: await fileSystem.open(path, 'create') };
  try {
    const bytes = Buffer.from(LAYOUT_TEXT);
    for (let at = 0; at < bytes.byteLength;) {
      at += await fileSystem.write(temp.fd, bytes.subarray(at), at);
    }
    await fileSystem.syncFile(temp.fd, 'layout-file');
    await fileSystem.link(temp.path, `${root}/${LAYOUT}`);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    checkLayoutText((await layoutText(fileSystem, root)) ?? '', root);
  } finally {
    temps.discard(temp);
  }
}

async function layoutText(
  fileSystem: DirectoryFileSystem,
  root: string,
): Promise<string | undefined> {
  try {
    const { bytes } = await readFile(fileSystem, `${root}/${LAYOUT}`, 0, LAYOUT_BYTES_MAX);
    return Buffer.from(bytes).toString('utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function checkLayoutText(text: string, root: string): void {
  const version = versionOf(text);
  if (version === LAYOUT_VERSION) return;
  throw layoutError(root, 'bucket directory has another layout', version ?? 'unreadable');
}

function versionOf(text: string): string | number | undefined {
  try {
    const layout = JSON.parse(text) as { layoutVersion?: unknown } | null;
    const version = layout?.layoutVersion;
    return typeof version === 'number' || typeof version === 'string' ? version : undefined;
  } catch {
    return undefined;
  }
}

function layoutError(root: string, summary: string, version: string | number): EngineError {
  return new EngineError('LAYOUT_VERSION', summary, {
    details: { bucket: root, version, expected: LAYOUT_VERSION },
  });
}

async function exists(fileSystem: DirectoryFileSystem, path: string): Promise<boolean> {
  try {
    await fileSystem.stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

export async function makeDirectory(fileSystem: DirectoryFileSystem, path: string): Promise<void> {
  try {
    await fileSystem.mkdir(path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

async function syncPath(
  fileSystem: DirectoryFileSystem,
  path: string,
  site: SyncSite,
): Promise<void> {
  const fd = await fileSystem.open(path, 'directory');
  try {
    await fileSystem.syncDirectory(fd, [site]);
  } finally {
    await fileSystem.close(fd);
  }
}
