import { assert } from '../src/lib/assert.ts';
import type { RefRow } from '../src/protocol/records.ts';

interface StreamRows {
  /** Ascending by start; rows of one stream do not overlap. */
  readonly rows: RefRow[];
}

/**
 * Rows by stream and position, bounded by the number of their spans. The streams that were not
 * looked at for longest go first. A row stays right for ever, but what it names may be removed
 * behind trim: who meets an absence there forgets the stream and looks again.
 */
export class RowCache {
  readonly #spansMax: number;
  /** In order of use. */
  readonly #streams = new Map<string, StreamRows>();
  #spans = 0;

  constructor(options: { readonly spansMax: number }) {
    assert(options.spansMax >= 0, 'a cache has a bound');
    this.#spansMax = options.spansMax;
  }

  /** Spans held. */
  get size(): number {
    return this.#spans;
  }

  find(streamId: string, seqNum: number): RefRow | undefined {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return undefined;
    this.#touch(streamId, stream);
    const row = stream.rows[indexAfter(stream.rows, seqNum) - 1];
    return row !== undefined && row.end > seqNum ? row : undefined;
  }

  add(streamId: string, row: RefRow): void {
    if (row.spans.length > this.#spansMax) return;
    const stream = this.#streams.get(streamId) ?? { rows: [] };
    this.#touch(streamId, stream);
    const index = indexAfter(stream.rows, row.start);
    if (stream.rows[index - 1]?.start === row.start) {
      this.#spans -= stream.rows[index - 1]!.spans.length;
      stream.rows[index - 1] = row;
    } else stream.rows.splice(index, 0, row);
    this.#spans += row.spans.length;
    while (this.#spans > this.#spansMax) this.#evict();
  }

  forget(streamId: string): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    this.#streams.delete(streamId);
    for (const row of stream.rows) this.#spans -= row.spans.length;
  }

  #touch(streamId: string, stream: StreamRows): void {
    this.#streams.delete(streamId);
    this.#streams.set(streamId, stream);
  }

  /** Drops the oldest stream; of the last one that is left, its lowest row. */
  #evict(): void {
    const [oldest] = this.#streams.keys();
    if (this.#streams.size > 1) {
      this.forget(oldest!);
      return;
    }
    const dropped = this.#streams.get(oldest!)!.rows.shift()!;
    this.#spans -= dropped.spans.length;
  }
}

/** Index of the first row that starts above `seqNum`. */
function indexAfter(rows: readonly RefRow[], seqNum: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle]!.start <= seqNum) low = middle + 1;
    else high = middle;
  }
  return low;
}
