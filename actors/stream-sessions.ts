/**
 * Handles of one led stream that were opened under a fencing token. A newer token ends those of the
 * older ones once it is durable; until then their appends are refused by comparison alone.
 * Source: DESIGN "Fencing token (K)".
 */
import type { EngineError } from '../src/lib/errors.ts';
import { supersededError } from './stream-errors.ts';

/** What one handle brings along with its appends. */
export class StreamSession {
  /** Undefined for a handle without a token: nothing ends it but its owner. */
  token: string | undefined;
  readonly #onEnded: () => void;
  #ended: EngineError | undefined;

  constructor(token: string | undefined, onEnded: () => void) {
    this.token = token;
    this.#onEnded = onEnded;
  }

  /** Why the handle is over, if a newer token ended it. */
  get ended(): EngineError | undefined {
    return this.#ended;
  }

  end(error: EngineError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#onEnded();
  }
}

interface Ending {
  /** The token is durable when the acknowledged tail reaches this position. */
  readonly endSeqNum: number;
  readonly token: string;
  readonly sessions: readonly StreamSession[];
}

export class StreamSessions {
  readonly #name: string;
  readonly #sessions = new Set<StreamSession>();
  readonly #endings: Ending[] = [];

  constructor(name: string) {
    this.#name = name;
  }

  add(session: StreamSession): void {
    this.#sessions.add(session);
  }

  remove(session: StreamSession): void {
    this.#sessions.delete(session);
  }

  /**
   * A batch that installs a token was accepted and ends at `endSeqNum`. The handle it came through
   * goes on under the new token.
   */
  installed(token: string, endSeqNum: number, by: StreamSession | undefined): void {
    if (by?.token !== undefined) by.token = token;
    const sessions = [...this.#sessions].filter(
      (session) => session.token !== undefined && session.token !== token,
    );
    if (sessions.length > 0) this.#endings.push({ endSeqNum, token, sessions });
  }

  /** Everything below `tail` is durable. */
  acknowledged(tail: number): void {
    for (let head = this.#endings[0]; head !== undefined; head = this.#endings[0]) {
      if (head.endSeqNum > tail) return;
      this.#endings.shift();
      for (const session of head.sessions) {
        this.#sessions.delete(session);
        session.end(supersededError(this.#name, head.token, session.token));
      }
    }
  }
}
