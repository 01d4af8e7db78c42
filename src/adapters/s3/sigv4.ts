/**
 * Signature Version 4 in headers. What is signed is given in canonical form already: keys of objects
 * need no escaping, and queries are built here, so nothing has to be parsed and normalised again.
 */
import { createHash, createHmac, hash } from 'node:crypto';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary credentials. */
  readonly sessionToken?: string | undefined;
  /** When they end, in milliseconds since 1970; undefined: never. */
  readonly expiresAtMillis?: number | undefined;
}

/** The words in which kinds of signatures differ. */
export interface SigningScheme {
  readonly algorithm: string;
  /** In front of the secret. */
  readonly prefix: string;
  readonly end: string;
}

export const AWS4: SigningScheme = {
  algorithm: 'AWS4-HMAC-SHA256',
  prefix: 'AWS4',
  end: 'aws4_request',
};
export const GOOG4: SigningScheme = {
  algorithm: 'GOOG4-HMAC-SHA256',
  prefix: 'GOOG4',
  end: 'goog4_request',
};

export interface SigningScope {
  readonly region: string;
  readonly service: string;
  /** `AWS4` by default. */
  readonly scheme?: SigningScheme;
}

export interface CanonicalRequest {
  readonly method: string;
  /** Percent-escaped, from the first slash. */
  readonly path: string;
  /** Percent-escaped and in the order of names; empty without a query. */
  readonly query: string;
  /** Lower-case names in byte order, with their trimmed values; every one of them is signed. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** SHA-256 of the body in hex, or `UNSIGNED_PAYLOAD`. */
  readonly payloadHash: string;
}

export const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD';
export const EMPTY_PAYLOAD_HASH = sha256Hex('');

/** Signs with keys that it keeps for the day: a new one costs as much as all else together. */
export class Signer {
  readonly #scope: SigningScope;
  readonly #scheme: SigningScheme;
  #key: { readonly day: string; readonly secret: string; readonly bytes: Buffer } | undefined;

  constructor(scope: SigningScope) {
    this.#scope = scope;
    this.#scheme = scope.scheme ?? AWS4;
  }

  /**
   * The value of the `authorization` header.
   *
   * @param at - of `amzDate`; the same text is among the signed headers.
   */
  authorization(request: CanonicalRequest, credentials: Credentials, at: string): string {
    const { region, service } = this.#scope;
    const { algorithm, end } = this.#scheme;
    const day = at.slice(0, 8);
    const scope = `${day}/${region}/${service}/${end}`;
    let lines = '';
    let names = '';
    for (const [name, value] of request.headers) {
      lines += `${name}:${value}\n`;
      names += names === '' ? name : `;${name}`;
    }
    const { method, path, query, payloadHash } = request;
    const canonical = `${method}\n${path}\n${query}\n${lines}\n${names}\n${payloadHash}`;
    const toSign = `${algorithm}\n${at}\n${scope}\n${sha256Hex(canonical)}`;
    const signature = createHmac('sha256', this.#keyOf(credentials, day))
      .update(toSign)
      .digest('hex');
    const credential = `${credentials.accessKeyId}/${scope}`;
    return `${algorithm} Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`;
  }

  #keyOf({ secretAccessKey: secret }: Credentials, day: string): Buffer {
    const kept = this.#key;
    if (kept?.day === day && kept.secret === secret) return kept.bytes;
    const { region, service } = this.#scope;
    let bytes: Buffer | string = `${this.#scheme.prefix}${secret}`;
    for (const part of [day, region, service, this.#scheme.end]) {
      bytes = createHmac('sha256', bytes).update(part).digest();
    }
    this.#key = { day, secret, bytes: bytes as Buffer };
    return this.#key.bytes;
  }
}

let lastSecond = NaN;
let lastDate = '';

/** A time as signatures carry it, `20130524T000000Z`. The last one is kept: it serves for a second. */
export function amzDate(millis: number): string {
  const second = Math.floor(millis / 1_000);
  if (second === lastSecond) return lastDate;
  const text = new Date(millis).toISOString();
  lastSecond = second;
  lastDate = `${text.slice(0, 4)}${text.slice(5, 7)}${text.slice(8, 13)}${text.slice(14, 16)}${text.slice(17, 19)}Z`;
  return lastDate;
}

/** A query in canonical form. */
export function canonicalQuery(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => [escape(name), escape(value)] as const)
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

/** Percent-escapes everything but unreserved characters. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

export function sha256Hex(bytes: string | Uint8Array): string {
  // The one-shot form takes no memory that threads share.
  if (typeof bytes === 'string') return hash('sha256', bytes);
  return createHash('sha256').update(bytes).digest('hex');
}
