import type { Socket } from 'node:net';

type Write = (chunk: unknown, ...rest: unknown[]) => boolean;

/**
 * Tells when the system has let go of the memory of a request's body. A server may answer before it
 * has read all of it; the rest is still written from the caller's memory then.
 */
export class BodyTracker {
  /** Bodies that are about to be sent, by the very array that the client hands to the socket. */
  readonly #bodies = new Map<unknown, () => void>();
  readonly #sockets = new Map<unknown, Socket>();

  /** Calls `onReleased` once `body`, written to a watched socket, is needed no more. */
  expect(body: Buffer, onReleased: () => void): void {
    this.#bodies.set(body, onReleased);
  }

  /** The body was never written and will not be. */
  forget(body: Buffer): void {
    this.#bodies.delete(body);
  }

  /** Ends the connection that still sends the body. */
  cut(body: Buffer): void {
    this.#sockets.get(body)?.destroy();
  }

  watch(socket: Socket): void {
    const held = new Set<() => void>();
    const write = socket.write.bind(socket) as Write;
    const watched: Write = (chunk, ...rest) => {
      const onReleased = this.#bodies.get(chunk);
      if (onReleased === undefined) return write(chunk, ...rest);
      this.#bodies.delete(chunk);
      const release = (): void => {
        if (!held.delete(release)) return;
        this.#sockets.delete(chunk);
        onReleased();
      };
      held.add(release);
      this.#sockets.set(chunk, socket);
      return write(chunk, release);
    };
    socket.write = watched;
    socket.once('close', () => {
      for (const release of held) release();
    });
  }
}
