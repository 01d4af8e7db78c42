/** States of four integers, numbered in the order in which they were added; each at most once. */
import { STATE_INTS } from './world.ts';

export class StateSet {
  size = 0;
  #ints = new Int32Array(STATE_INTS * 4_096);
  /** Number of a state plus one, 0 for a free place. */
  #table = new Int32Array(16_384);

  /** False when the state is there already. */
  add(a: number, b: number, c: number, d: number): boolean {
    const mask = this.#table.length - 1;
    let place = hash(a, b, c, d) & mask;
    for (let at = this.#table[place]!; at !== 0; at = this.#table[place]!) {
      if (this.#holds(at - 1, a, b, c, d)) return false;
      place = (place + 1) & mask;
    }
    this.#append(a, b, c, d);
    this.#table[place] = this.size;
    if (this.size * 2 > this.#table.length) this.#grow();
    return true;
  }

  int(state: number, index: number): number {
    return this.#ints[state * STATE_INTS + index]!;
  }

  #holds(state: number, a: number, b: number, c: number, d: number): boolean {
    const at = state * STATE_INTS;
    const ints = this.#ints;
    return ints[at] === a && ints[at + 1] === b && ints[at + 2] === c && ints[at + 3] === d;
  }

  #append(a: number, b: number, c: number, d: number): void {
    const at = this.size * STATE_INTS;
    if (at === this.#ints.length) {
      const larger = new Int32Array(2 * this.#ints.length);
      larger.set(this.#ints);
      this.#ints = larger;
    }
    this.#ints[at] = a;
    this.#ints[at + 1] = b;
    this.#ints[at + 2] = c;
    this.#ints[at + 3] = d;
    this.size++;
  }

  #grow(): void {
    const table = new Int32Array(2 * this.#table.length);
    const mask = table.length - 1;
    for (let state = 0; state < this.size; state++) {
      const at = state * STATE_INTS;
      const [a, b, c, d] = [at, at + 1, at + 2, at + 3].map((index) => this.#ints[index]!);
      let place = hash(a!, b!, c!, d!) & mask;
      while (table[place] !== 0) place = (place + 1) & mask;
      table[place] = state + 1;
    }
    this.#table = table;
  }
}

function hash(a: number, b: number, c: number, d: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0xc2b2ae35) ^ Math.imul(c, 0x27d4eb2f) ^ Math.imul(d, 0x165667b1);
  h = Math.imul(h ^ (h >>> 13), 0x9e3779b1);
  return h ^ (h >>> 16);
}
