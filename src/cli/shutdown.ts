/**
 * Ends a run on SIGINT, SIGTERM or a broken pipe. The first signal asks the command to stop: it
 * takes no more input, waits for what is under way and releases its streams. The second one ends the
 * process at once; the next start then fences what was left.
 */
import { setMaxListeners } from 'node:events';
import { EXIT_CODES } from './exit-codes.ts';

export type StopReason = 'SIGINT' | 'SIGTERM' | 'broken pipe' | 'output failed';

const EXIT_OF_REASON: Readonly<Record<StopReason, number>> = {
  SIGINT: EXIT_CODES.interrupted.code,
  SIGTERM: EXIT_CODES.terminated.code,
  // Whoever closed the pipe has seen enough: `asterlog read s | head` is no failure.
  'broken pipe': EXIT_CODES.ok.code,
  'output failed': EXIT_CODES.failed.code,
};

/** The part of `process` that is used. */
export interface SignalSource {
  on(event: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  off(event: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
}

export class Shutdown {
  readonly #controller = new AbortController();
  readonly #exit: (code: number) => void;
  #reason: StopReason | undefined;

  /** @param exit - ends the process at once. */
  constructor(exit: (code: number) => void) {
    this.#exit = exit;
    // Every wait of a command listens; that many at once are no leak.
    setMaxListeners(0, this.#controller.signal);
  }

  /** Fires when the command is to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The exit code of a run that was stopped; undefined when it was not. */
  get exitCode(): number | undefined {
    return this.#reason === undefined ? undefined : EXIT_OF_REASON[this.#reason];
  }

  stop(reason: StopReason): void {
    if (this.#reason !== undefined) {
      // A pipe breaks once a write; only people who ask twice want no more waiting.
      if (reason === 'SIGINT' || reason === 'SIGTERM') this.#exit(EXIT_OF_REASON[reason]);
      return;
    }
    this.#reason = reason;
    this.#controller.abort(new Error(`stopped by ${reason}`));
  }

  /** Listens until the returned function is called. */
  listen(source: SignalSource): () => void {
    const onInterrupt = (): void => this.stop('SIGINT');
    const onTerminate = (): void => this.stop('SIGTERM');
    source.on('SIGINT', onInterrupt);
    source.on('SIGTERM', onTerminate);
    return () => {
      source.off('SIGINT', onInterrupt);
      source.off('SIGTERM', onTerminate);
    };
  }
}
