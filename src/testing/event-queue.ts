/** A binary heap of what is due, with lazy removal of what was cancelled. */

export interface DueEvent {
  /** Virtual milliseconds since the start. */
  at: number;
  /** Events of a later tier run after all events of the same time that are there already. */
  readonly tier: number;
  /** Drawn from the seed: decides between events of one time and tier. */
  order: number;
  /** Insertion number: decides what is left, so that the order is total. */
  serial: number;
  cancelled: boolean;
}

export class EventQueue<E extends DueEvent> {
  readonly #heap: E[] = [];
  #cancelled = 0;

  /** Events that are still to run. */
  get size(): number {
    return this.#heap.length - this.#cancelled;
  }

  push(event: E): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = event;
  }

  cancel(event: E): void {
    if (event.cancelled) return;
    event.cancelled = true;
    this.#cancelled++;
  }

  peek(): E | undefined {
    this.#dropCancelled();
    return this.#heap[0];
  }

  pop(): E | undefined {
    this.#dropCancelled();
    return this.#take();
  }

  #dropCancelled(): void {
    while (this.#heap[0]?.cancelled === true) {
      this.#take();
      this.#cancelled--;
    }
  }

  #take(): E | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(a: DueEvent, b: DueEvent): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.tier !== b.tier) return a.tier < b.tier;
  if (a.order !== b.order) return a.order < b.order;
  return a.serial < b.serial;
}
