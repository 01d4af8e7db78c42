import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const CLI = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url));

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  readonly finished: Promise<Finished>;
  /** What it printed so far. */
  readonly stdout: () => string;
  /** Resolves when standard output contains the text. */
  printed(text: string): Promise<void>;
}

/** Starts the built command line; it does not outlive the test. */
export function start(
  args: readonly string[],
  options: { readonly stdout?: number } = {},
): Running {
  const child = spawn(process.execPath, [CLI, ...args], {
    stdio: ['pipe', options.stdout ?? 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const out: string[] = [];
  const err: string[] = [];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => out.push(text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => err.push(text));
  const finished = new Promise<Finished>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      resolve({ code, stdout: out.join(''), stderr: err.join('') });
    });
  });
  return {
    child,
    finished,
    stdout: () => out.join(''),
    printed: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (out.join('').includes(text)) resolve();
        };
        child.stdout?.on('data', look);
        void finished.then(({ stderr }) => {
          reject(new Error(`ended without printing ${text}: ${stderr}`));
        });
        look();
      }),
  };
}

/** Runs to the end with this input. */
export function run(
  args: readonly string[],
  input: string | Uint8Array = '',
  options: { readonly stdout?: number } = {},
): Promise<Finished> {
  const { child, finished } = start(args, options);
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(input);
  return finished;
}

/** The one JSON document that a run printed; its failure is the failure of the test. */
export function documentOf({ code, stdout, stderr }: Finished): Record<string, unknown> {
  if (code !== 0) throw new Error(`exit code ${String(code)}: ${stderr}`);
  return JSON.parse(stdout) as Record<string, unknown>;
}

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'asterlog-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A data directory that does not exist yet, as options. */
export function freshRoot(): string[] {
  return ['--root', join(temporaryFolder(), 'data')];
}
