/** Tells whoever listens that something moved; nobody listening costs nothing. */
export class Progress {
  readonly #listeners = new Set<() => void>();

  tell(): void {
    if (this.#listeners.size === 0) return;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Calls `listener` at each movement, until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves at the next movement, or when the signal fires. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        stop();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const stop = this.listen(done);
      if (signal.aborted) done();
      else signal.addEventListener('abort', done, { once: true });
    });
  }
}
