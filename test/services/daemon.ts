/** A server of another project as a child process that cannot outlive this one. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

const OUTPUT_KEPT = 4_000;

/** Rejects where no daemon can be started: without the tool that ties its life to ours. */
export async function checkDaemons(): Promise<void> {
  await run('setpriv', ['--version']);
}

export class Daemon {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<string>;
  #output = '';
  #isOver = false;

  /** The kernel kills it when the thread that starts it ends, however that comes about. */
  constructor(name: string, command: readonly string[], env: NodeJS.ProcessEnv) {
    this.name = name;
    const [file, ...args] = ['setpriv', '--pdeathsig', 'KILL', ...command] as const;
    this.#child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-OUTPUT_KEPT);
      });
    }
    this.#ended = new Promise((resolve) => {
      const end = (how: string): void => {
        this.#isOver = true;
        resolve(how);
      };
      this.#child.once('error', (error) => end(error.message));
      this.#child.once('close', (code, signal) => end(String(signal ?? code)));
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The end of what it printed. */
  get output(): string {
    return this.#output;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Kills it, stopped or not, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  /** Rejects when it ends. */
  async untilEnd(): Promise<never> {
    const how = await this.#ended;
    throw new Error(`${this.name} ended with ${how}: ${this.#output}`);
  }
}
