import type { StarPorts } from './ports.ts';
import { readLastRow, type SeenLastRow } from './ref-rows.ts';

/** More are read when their turn comes. */
const SEEN_MAX = 64;

/** First looks at last rows, taken while something else is under way: whoever waits is spared a round trip. */
export class SeenRows {
  readonly #ports: Pick<StarPorts, 'metastore'>;
  readonly #signal: AbortSignal;
  readonly #looks = new Map<string, Promise<SeenLastRow | undefined>>();

  /** @param signal - fires when nobody asks any more. */
  constructor(ports: Pick<StarPorts, 'metastore'>, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  look(streamId: string): void {
    if (this.#looks.size >= SEEN_MAX || this.#looks.has(streamId)) return;
    const look = readLastRow(this.#ports, streamId, { signal: this.#signal }).then(
      (last) => ({ last }),
      () => undefined,
    );
    this.#looks.set(streamId, look);
  }

  /** Hands a look out once; undefined when there was none, or it failed. */
  async take(streamId: string): Promise<SeenLastRow | undefined> {
    const look = this.#looks.get(streamId);
    this.#looks.delete(streamId);
    return look;
  }
}
