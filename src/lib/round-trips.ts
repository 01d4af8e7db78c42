/**
 * Counts round trips to storage and metastore along the longest chain of calls that wait for one
 * another: what latency multiplies. Costs an async context, so that it is off unless asked for.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** One course of work. Calls that go out at once add one round trip together. */
export interface Flow {
  /** An upper bound: parallel branches count as if each waited for whatever had come back by then. */
  depth: number;
}

export class RoundTripMeter {
  readonly #flow = new AsyncLocalStorage<Flow>();

  /** Counts the calls that `work` leads to for the flow. */
  within<T>(flow: Flow, work: () => T): T {
    return this.#flow.run(flow, work);
  }

  /**
   * For work that is done some at a time and does not wait for each other: every piece counts from
   * where this was called, however late its turn comes.
   */
  fork(): <T>(piece: () => Promise<T>) => Promise<T> {
    const flow = this.#flow.getStore();
    if (flow === undefined) return (piece) => piece();
    const { depth } = flow;
    return async (piece) => {
      const own: Flow = { depth };
      try {
        return await this.#flow.run(own, piece);
      } finally {
        flow.depth = Math.max(flow.depth, own.depth);
      }
    };
  }

  /** One call to storage or metastore. */
  async call<T>(call: () => Promise<T>): Promise<T> {
    const flow = this.#flow.getStore();
    if (flow === undefined) return call();
    const depth = flow.depth + 1;
    try {
      return await call();
    } finally {
      flow.depth = Math.max(flow.depth, depth);
    }
  }
}
