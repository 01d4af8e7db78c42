import { EngineError } from '../../lib/errors.ts';
import type { Credentials } from './sigv4.ts';

/** Asks for credentials: from the environment, a chain of sources, or whatever the caller has. */
export type CredentialSource = () => Promise<Credentials>;

/** New ones are asked for so long before the old ones end, of those that last an hour. */
const REFRESH_BEFORE_MILLIS = 5 * 60_000;
/** Credentials that a server calls expired are asked for again, but not at every request. */
const REFUSED_PAUSE_MILLIS = 1_000;

/** Keeps credentials until shortly before they end. Their values never leave it but to be signed with. */
export class CredentialCache {
  readonly #source: CredentialSource;
  readonly #now: () => number;
  readonly #refreshBeforeMillis: number;
  #kept: Credentials | undefined;
  #asking: Promise<Credentials> | undefined;
  #askedAt = -Infinity;

  constructor(
    source: CredentialSource,
    now: () => number = Date.now,
    refreshBeforeMillis: number = REFRESH_BEFORE_MILLIS,
  ) {
    this.#source = source;
    this.#now = now;
    this.#refreshBeforeMillis = refreshBeforeMillis;
  }

  /**
   * Credentials at once where they are at hand, so that requests need no turn of the loop.
   *
   * @throws {EngineError} `BUCKET_REFUSED` when there are none.
   */
  get(): Credentials | Promise<Credentials> {
    const kept = this.#kept;
    if (kept === undefined) return this.#ask();
    const left = (kept.expiresAtMillis ?? Infinity) - this.#now();
    if (left > this.#refreshBeforeMillis) return kept;
    if (left <= 0) return this.#ask();
    // Good for now: whoever comes later gets the new ones. A failure shows once these have ended.
    if (this.#now() - this.#askedAt > REFUSED_PAUSE_MILLIS) this.#ask().catch(() => undefined);
    return kept;
  }

  /** The server says that these have ended: the next request asks for others. */
  expired(credentials: Credentials): void {
    if (this.#kept !== credentials) return;
    if (this.#now() - this.#askedAt > REFUSED_PAUSE_MILLIS) this.#kept = undefined;
  }

  #ask(): Promise<Credentials> {
    this.#askedAt = this.#now();
    this.#asking ??= this.#askSource().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #askSource(): Promise<Credentials> {
    let credentials: Credentials;
    try {
      credentials = await this.#source();
    } catch (error) {
      if (EngineError.is(error)) throw error;
      // No cause: what a source says may quote what it read.
      throw noCredentials(error instanceof Error ? error.name : 'unknown');
    }
    if (credentials.accessKeyId === '' || credentials.secretAccessKey === '') {
      throw noCredentials('empty');
    }
    checkHeaderText(credentials);
    this.#kept = credentials;
    return credentials;
  }
}

/**
 * A line break that a file left behind, most of all: no request can be made of it, now or later.
 *
 * @throws {EngineError} `BUCKET_REFUSED` that names the setting, never its value.
 */
export function checkHeaderText({ accessKeyId, sessionToken = '' }: Credentials): void {
  for (const [setting, value] of Object.entries({ accessKeyId, sessionToken })) {
    if (/^[\x21-\x7e]*$/.test(value)) continue;
    const summary = 'credentials hold a character that no header may have';
    throw new EngineError('BUCKET_REFUSED', summary, { details: { setting } });
  }
}

function noCredentials(reason: string): EngineError {
  return new EngineError('BUCKET_REFUSED', 'there are no credentials for the bucket', {
    details: { setting: 'credentials', reason },
  });
}
