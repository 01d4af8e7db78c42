import type { BucketStore } from '../../src/ports/bucket-store.ts';

type Create = BucketStore['createOnly'];

/** Stands between an engine and its buckets: slot objects of a star wait until they are let go. */
export class HeldPuts {
  readonly #star: string;
  #isHolding = false;
  #waiting: (() => void)[] = [];

  constructor(star: string) {
    this.#star = star;
  }

  hold(): void {
    this.#isHolding = true;
  }

  get count(): number {
    return this.#waiting.length;
  }

  /** Later ones pass; those that wait go on waiting. */
  holdNoMore(): void {
    this.#isHolding = false;
  }

  letGo(): void {
    this.#isHolding = false;
    for (const go of this.#waiting.splice(0)) go();
  }

  /** The bucket as the star's engine sees it. */
  wrap(bucket: BucketStore): BucketStore {
    return new Proxy(bucket, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        const bound = member.bind(target) as Create;
        if (name !== 'createOnly') return bound;
        return async (...args: Parameters<Create>) => {
          const isSlot = args[0].includes(`/${this.#star}/`);
          if (isSlot && this.#isHolding) {
            await new Promise<void>((resolve) => this.#waiting.push(resolve));
          }
          return bound(...args);
        };
      },
    });
  }
}
