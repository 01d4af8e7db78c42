import { EngineError } from '../../src/lib/errors.ts';
import type { MetaEntry, Metastore } from '../../src/ports/metastore.ts';

export interface MetaCall {
  readonly op: 'get' | 'put' | 'delete' | 'floor' | 'lastChild' | 'children' | 'barrier';
  /** The key, the prefix or the partition. */
  readonly key: string;
}

/** Counts the calls of one engine, fails some on demand, answers others from the past. */
export class BrokenMetastore {
  readonly calls: MetaCall[] = [];
  /** What the call throws instead of being made. */
  fails: (call: MetaCall) => EngineError | undefined = () => undefined;
  /** Entries as they were when `freeze` was called, for reads of keys that match. */
  #frozen: { readonly keys: RegExp; readonly entries: Map<string, MetaEntry> } | undefined;

  wrap(metastore: Metastore): Metastore {
    const before = (op: MetaCall['op'], key: string): void => {
      const call = { op, key };
      this.calls.push(call);
      const error = this.fails(call);
      if (error !== undefined) throw error;
    };
    return {
      get: async (key, options) => {
        before('get', key);
        if (this.#frozen?.keys.test(key) === true) return this.#frozen.entries.get(key);
        return metastore.get(key, options);
      },
      put: async (key, value, expected, options) => {
        before('put', key);
        return metastore.put(key, value, expected, options);
      },
      delete: async (key, expected, options) => {
        before('delete', key);
        return metastore.delete(key, expected, options);
      },
      floor: async (key, lowerBound, options) => {
        before('floor', key);
        return metastore.floor(key, lowerBound, options);
      },
      lastChild: async (prefix, options) => {
        before('lastChild', prefix);
        return metastore.lastChild(prefix, options);
      },
      children: async (prefix, options) => {
        before('children', prefix);
        return metastore.children(prefix, options);
      },
      barrier: async (partition, options) => {
        before('barrier', partition);
        if (this.#frozen?.keys.test(`${partition}/`) === true) this.#frozen = undefined;
        return metastore.barrier(partition, options);
      },
      watch: (prefix, listener) => metastore.watch(prefix, listener),
      close: () => metastore.close(),
    };
  }

  /** From now on reads of keys that match answer what they would have answered now, up to a barrier. */
  async freeze(metastore: Metastore, prefix: string, keys: RegExp): Promise<void> {
    const entries = await metastore.children(prefix);
    this.#frozen = { keys, entries: new Map(entries.map((entry) => [entry.key, entry])) };
  }

  writes(pattern: RegExp): readonly MetaCall[] {
    return this.calls.filter(
      ({ op, key }) => (op === 'put' || op === 'delete') && pattern.test(key),
    );
  }
}

export function unavailable(): EngineError {
  return new EngineError('METASTORE_UNAVAILABLE', 'the metastore is away');
}
