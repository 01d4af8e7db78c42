import type { Http2Session } from 'node:http2';

/** One path a version of the messages: an engine of another version answers that there is none. */
export const PEER_PATH = '/asterlog/peers/1';

/** Destroys a session whose other side gives no sign of life; keeps no process alive. */
export function keepAlive(session: Http2Session, pingMillis: number): () => void {
  let isWaiting = false;
  const timer = setInterval(() => {
    if (session.destroyed) return;
    if (isWaiting) {
      session.destroy();
      return;
    }
    isWaiting = session.ping((error) => {
      isWaiting = error !== null;
    });
  }, pingMillis).unref();
  return () => clearInterval(timer);
}
