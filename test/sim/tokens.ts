/** What callers know of the fencing tokens of streams: right for a while, stale after. */
import { EngineError } from '../../src/lib/errors.ts';
import type { Prng } from '../../src/lib/prng.ts';

export class TokenBook {
  readonly #known = new Map<string, string[]>();
  #count = 0;

  /** The newest token that anybody heard of. */
  current(stream: string): string {
    return this.#known.get(stream)?.at(-1) ?? '';
  }

  /** No token is used twice, so that each tells which record installed it. */
  fresh(): string {
    return `t${this.#count++}`;
  }

  learn(stream: string, token: string): void {
    if (this.current(stream) !== token) this.#known.set(stream, [...this.#all(stream), token]);
  }

  /** Mostly the right one, sometimes one that was right, sometimes none. */
  draw(stream: string, prng: Prng): string {
    const draw = prng.fraction();
    if (draw < 0.7) return this.current(stream);
    return draw < 0.9 ? prng.pick(['', ...this.#all(stream)]) : '';
  }

  /** Every refusal names the token in force. */
  notice(stream: string, error: unknown): void {
    if (!EngineError.is(error) || error.code !== 'FENCING_TOKEN_MISMATCH') return;
    const token = error.details['fencingToken'];
    if (typeof token === 'string') this.learn(stream, token);
  }

  #all(stream: string): readonly string[] {
    return this.#known.get(stream) ?? [];
  }
}
