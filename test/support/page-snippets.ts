import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Snippets of a page by the file they come from, marked by a comment in front of the block. */
export function pageSnippets(page: string): ReadonlyMap<string, string> {
  return new Map(
    [...page.matchAll(/<!-- snippet: (\S+) -->\n+```\w+\n([^]*?)```/g)].map(([, file, code]) => [
      file!,
      code!,
    ]),
  );
}

/** A file of this folder that a page shows and a test runs. */
export function snippetPath(file: string): string {
  return fileURLToPath(new URL(`./snippets/${file}`, import.meta.url));
}

export function snippetText(file: string): string {
  return readFileSync(snippetPath(file), 'utf8');
}
