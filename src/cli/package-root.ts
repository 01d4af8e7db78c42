import { existsSync, readFileSync } from 'node:fs';

/** The folder of this package: source and built files lie at different depths below it. */
export function packageRoot(): URL {
  let folder = new URL('.', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) {
    const parent = new URL('..', folder);
    if (parent.href === folder.href) throw new Error('the package has no package.json above it');
    folder = parent;
  }
  return folder;
}

export function packageVersion(): string {
  const text = readFileSync(new URL('package.json', packageRoot()), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
