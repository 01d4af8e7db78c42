import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { workerFile, type WorkerFile } from '../../lib/worker-file.ts';
import { decodeReport, type Report } from './reports.ts';
import { REPORT_FD, type WriterConfig } from './writer-config.ts';

/** A child that reports in lines on a pipe of its own, until its standard input ends. */
export interface WriterProcess {
  readonly pid: number;
  /** Asks for an orderly end; `ended` resolves when it is over. */
  stop(): void;
  /** SIGKILL. */
  kill(): void;
  /** Resolves when the process is gone and its last report was handed over. */
  readonly ended: Promise<WriterEnd>;
}

export interface WriterEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last lines it wrote to standard error. */
  readonly stderr: string;
}

const STDERR_KEPT = 4_000;

export function startWriter(
  config: WriterConfig,
  onReport: (report: Report) => void,
  options: { readonly file?: WorkerFile } = {},
): WriterProcess {
  const file = options.file ?? workerFile('writer.worker', import.meta.url);
  return startReporting(file, config, (line) => onReport(decodeReport(line)));
}

/** Starts a worker file as a process with its configuration as argument. */
export function startReporting(
  { filename, execArgv }: WorkerFile,
  config: object,
  onLine: (line: string) => void,
  /** What is not for everybody to read, as arguments are. */
  env: Readonly<Record<string, string>> = {},
): WriterProcess {
  const child = spawn(process.execPath, [...execArgv, filename, JSON.stringify(config)], {
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  // A child that dies first breaks this pipe; its end is reported by `ended`.
  child.stdin?.on('error', () => undefined);
  const stderr = keepTail(child.stderr!);
  const lines = readLines(child.stdio[REPORT_FD] as Readable, onLine);
  return {
    pid: child.pid ?? -1,
    stop: () => void child.stdin?.end(),
    kill: () => void child.kill('SIGKILL'),
    ended: endOf(child, lines, stderr),
  };
}

async function endOf(
  child: ChildProcess,
  lines: Promise<void>,
  stderr: () => string,
): Promise<WriterEnd> {
  // Awaited only after the process is gone; a failure before that must not count as unhandled.
  lines.catch(() => undefined);
  const [exitCode, signal] = await new Promise<[number | null, NodeJS.Signals | null]>(
    (resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, name) => {
        resolve([code, name]);
      });
    },
  );
  await lines;
  return { exitCode, signal, stderr: stderr() };
}

/** A line that a kill cut short is no report: its acknowledgement never reached the parent whole. */
async function readLines(pipe: Readable, onLine: (line: string) => void): Promise<void> {
  let rest = '';
  pipe.setEncoding('utf8');
  for await (const chunk of pipe) {
    const lines = (rest + (chunk as string)).split('\n');
    rest = lines.pop()!;
    for (const line of lines) onLine(line);
  }
}

function keepTail(stream: Readable): () => string {
  let kept = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    kept = (kept + text).slice(-STDERR_KEPT);
  });
  return () => kept.trim();
}
