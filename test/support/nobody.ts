import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const READ_AND_ENTER = 0o005;

function isReachable(path: string): boolean {
  for (let at = path; at !== dirname(at); at = dirname(at)) {
    if ((statSync(at).mode & READ_AND_ENTER) !== READ_AND_ENTER && at !== path) return false;
  }
  return true;
}

/**
 * How to spawn a child that may not write anywhere, as options of `spawn`; undefined where that
 * cannot be: root whose Node or checkout others may not enter.
 */
export function asNobody(): { readonly uid?: number; readonly gid?: number } | undefined {
  if (process.getuid?.() !== 0) return {};
  const needed = [process.execPath, fileURLToPath(import.meta.url)];
  return needed.every(isReachable) ? { uid: 65_534, gid: 65_534 } : undefined;
}
