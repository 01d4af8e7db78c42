/**
 * Listens to abort signals for many calls at once: one listener a signal, however many calls carry
 * it. A listener a call costs as much as the call's other bookkeeping, and makes Node warn of a leak.
 */
export class Signals {
  readonly #watched = new Map<AbortSignal, Watched>();

  /** Has `onAbort` called once if the signal fires before `leave`. */
  join(signal: AbortSignal, onAbort: () => void): void {
    let watched = this.#watched.get(signal);
    if (watched === undefined) {
      const listeners = new Set<() => void>();
      const fire = (): void => {
        this.#watched.delete(signal);
        for (const listener of listeners) listener();
      };
      watched = { listeners, fire };
      this.#watched.set(signal, watched);
      signal.addEventListener('abort', fire, { once: true });
    }
    watched.listeners.add(onAbort);
  }

  leave(signal: AbortSignal, onAbort: () => void): void {
    const watched = this.#watched.get(signal);
    if (watched === undefined) return;
    watched.listeners.delete(onAbort);
    if (watched.listeners.size > 0) return;
    this.#watched.delete(signal);
    signal.removeEventListener('abort', watched.fire);
  }
}

interface Watched {
  readonly listeners: Set<() => void>;
  readonly fire: () => void;
}
