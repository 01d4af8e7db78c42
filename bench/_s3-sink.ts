/** Starts the server of `_s3-sink-process.ts` and tells it how slow to be. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { workerFile } from '../src/lib/worker-file.ts';

/** How long requests to some buckets take; others are answered at once. */
export interface SinkService {
  readonly buckets: readonly string[];
  readonly millis: number;
  /** This share of the requests takes `slowMillis` instead. */
  readonly slowShare?: number;
  readonly slowMillis?: number;
}

export type SinkCommand =
  | { readonly kind: 'serve'; readonly services: readonly SinkService[] }
  | { readonly kind: 'forget' }
  | { readonly kind: 'report' };

/** Counted since the start. */
export interface SinkReport {
  readonly requests: number;
  readonly puts: number;
  readonly cpuSeconds: number;
}

const PROCESS = workerFile('_s3-sink-process', import.meta.url);

export class Sink {
  readonly endpoint: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.endpoint = `http://127.0.0.1:${port}`;
  }

  static async start(): Promise<Sink> {
    const child = fork(PROCESS.filename, { execArgv: PROCESS.execArgv });
    const [{ port }] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => Promise.reject(new Error('the sink ended'))),
    ])) as [{ port: number }];
    return new Sink(child, port);
  }

  serve(...services: SinkService[]): Promise<SinkReport> {
    return this.#ask({ kind: 'serve', services });
  }

  /** Everything that is stored. */
  forget(): Promise<SinkReport> {
    return this.#ask({ kind: 'forget' });
  }

  report(): Promise<SinkReport> {
    return this.#ask({ kind: 'report' });
  }

  stop(): void {
    this.#child.disconnect();
  }

  async #ask(command: SinkCommand): Promise<SinkReport> {
    const answered = once(this.#child, 'message');
    this.#child.send(command);
    const [report] = (await answered) as [SinkReport];
    return report;
  }
}
