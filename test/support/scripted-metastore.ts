import { MemoryMetastore } from '../../src/adapters/memory/metastore.ts';
import { EngineError } from '../../src/lib/errors.ts';
import { abortedError } from '../../src/lib/wait.ts';
import type {
  DeleteResult,
  MetaCallOptions,
  MetaEntry,
  MetaVersion,
  PutResult,
} from '../../src/ports/metastore.ts';

export type Fault =
  /** Not applied, and says so. */
  | 'unavailable'
  /** Applied, but the answer is lost. */
  | 'lost-answer'
  /** Not applied yet, the outcome unknown: `applyLate` applies it. */
  | 'late'
  /** No answer until the caller gives up; not applied. */
  | 'hang';

type Call = 'get' | 'put' | 'delete';

/** A metastore in memory whose next calls fail as told. */
export class ScriptedMetastore extends MemoryMetastore {
  readonly calls: Call[] = [];
  readonly #faults: [Call, Fault][] = [];
  readonly #late: (() => void)[] = [];
  /** Fails every call of a kind until taken back. */
  readonly constant = new Map<Call, Fault>();
  /** What `get` answers instead of the truth, for a key. */
  readonly stale = new Map<string, MetaEntry | undefined>();
  /** Runs right before a put is judged. */
  beforePut: ((key: string) => void) | undefined;

  fail(...faults: [Call, Fault][]): void {
    this.#faults.push(...faults);
  }

  applyLate(): void {
    for (const apply of this.#late.splice(0)) apply();
  }

  override async get(key: string, options: MetaCallOptions = {}): Promise<MetaEntry | undefined> {
    await this.#play('get', options);
    return this.stale.has(key) ? this.stale.get(key) : super.get(key, options);
  }

  override async put(
    key: string,
    value: Uint8Array,
    expected: MetaVersion | 'absent',
    options: MetaCallOptions = {},
  ): Promise<PutResult> {
    this.beforePut?.(key);
    const kept = value.slice();
    const fault = await this.#play('put', options, () => this.state.put(key, kept, expected));
    const result = await super.put(key, value, expected);
    if (fault === 'lost-answer') throw indeterminate();
    return result;
  }

  override async delete(
    key: string,
    expected: MetaVersion,
    options: MetaCallOptions = {},
  ): Promise<DeleteResult> {
    const fault = await this.#play('delete', options, () => this.state.delete(key, expected));
    const result = await super.delete(key, expected);
    if (fault === 'lost-answer') throw indeterminate();
    return result;
  }

  async #play(
    call: Call,
    { signal }: MetaCallOptions,
    apply?: () => unknown,
  ): Promise<Fault | undefined> {
    this.calls.push(call);
    const index = this.#faults.findIndex(([kind]) => kind === call);
    const fault = index >= 0 ? this.#faults.splice(index, 1)[0]![1] : this.constant.get(call);
    if (signal?.aborted === true) throw abortedError(signal, call);
    switch (fault) {
      case 'unavailable':
        throw new EngineError('METASTORE_UNAVAILABLE', 'scripted');
      case 'late':
        this.#late.push(() => apply?.());
        throw indeterminate();
      case 'hang':
        await new Promise<void>((_, reject) => {
          signal?.addEventListener('abort', () => reject(abortedError(signal, call)));
        });
        break;
      case 'lost-answer':
      case undefined:
        break;
    }
    return fault;
  }
}

function indeterminate(): EngineError {
  return new EngineError('METASTORE_INDETERMINATE', 'scripted', { sideEffects: 'possible' });
}
