import { createHash, timingSafeEqual } from 'node:crypto';

const SCHEME = 'Bearer ';

export function authorizationOf(token: string): string {
  return `${SCHEME}${Buffer.from(token, 'utf8').toString('base64url')}`;
}

/** Compares digests of equal length, so that the time it takes tells nothing about the token. */
export function authorizes(header: string | undefined, expected: string): boolean {
  return timingSafeEqual(digestOf(header ?? ''), digestOf(authorizationOf(expected)));
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
