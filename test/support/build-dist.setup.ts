import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Brings `dist` up to date before the tests of the built package; the compiler skips what is fresh. */
export default function buildDist(): void {
  execFileSync('npm', ['run', '--silent', 'build'], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
}
