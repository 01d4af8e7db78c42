/** Runs a TypeScript file of the tests as a process of its own. */
import { spawn } from 'node:child_process';
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Child {
  readonly process: ChildProcess;
  /** Everything it has printed so far. */
  output(): string;
  errors(): string;
  /** Resolves when the process has ended and its output is complete. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>;
}

export interface ChildOptions extends SpawnOptions {
  /** A shell command that gets the process's command line as its arguments. */
  readonly shellPrefix?: string;
}

export function spawnTypeScript(
  url: URL,
  args: readonly string[],
  { shellPrefix, ...options }: ChildOptions = {},
): Child {
  const command = [process.execPath, '--import', 'tsx', fileURLToPath(url), ...args];
  const [file, ...rest] =
    shellPrefix === undefined ? command : ['bash', '-c', shellPrefix, 'bash', ...command];
  const child = spawn(file!, rest, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  let output = '';
  let errors = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      resolve({ code, signal });
    });
  });
  return { process: child, output: () => output, errors: () => errors, ended };
}
