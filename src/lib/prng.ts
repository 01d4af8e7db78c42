import type { Random } from './random.ts';

/** A small seeded generator (sfc32). Same seed, same numbers, on every machine. */
export class Prng implements Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: number) {
    this.#a = 0x9e3779b9;
    this.#b = 0x243f6a88;
    this.#c = 0xb7e15162 ^ Math.floor(seed / 2 ** 32);
    this.#d = seed >>> 0;
    for (let i = 0; i < 15; i++) this.uint32();
  }

  uint32(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    this.#c |= 0;
    return t >>> 0;
  }

  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** An integer in `[0, bound)`. */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  hex(byteCount: number): string {
    let text = '';
    for (let i = 0; i < byteCount; i++)
      text += (this.uint32() & 0xff).toString(16).padStart(2, '0');
    return text;
  }
}
