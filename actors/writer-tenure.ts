/**
 * A stream's last-writer record as this star saw and wrote it: the single point of decision over who
 * leads (T1-T6). Every write is a CAS of the version seen last. Source: DESIGN "Tenure and the open
 * gate (T)".
 */
import { assert } from '../src/lib/assert.ts';
import { sameTenure } from '../src/protocol/gate.ts';
import { writerKey } from '../src/protocol/keys.ts';
import {
  encodeRecordValue,
  parseRecordValue,
  writerRecord,
  type EpochRecord,
  type Tenure,
  type WriterRecord,
} from '../src/protocol/records.ts';
import type { MetaEntry, MetaVersion, PutResult } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

type WriterPorts = Pick<StarPorts, 'clock' | 'random' | 'metastore'>;
type Unwritten<T> = T extends unknown ? Omit<T, 'attempt'> : never;

export class WriterTenure {
  readonly #ports: WriterPorts;
  readonly #signal: AbortSignal | undefined;
  readonly #key: string;
  #conflict: { readonly entry: MetaEntry | undefined } | undefined;
  #seen: { readonly record: WriterRecord; readonly version: MetaVersion } | undefined;

  constructor(ports: WriterPorts, streamId: string, signal: AbortSignal | undefined) {
    this.#ports = ports;
    this.#signal = signal;
    this.#key = writerKey(streamId);
  }

  get key(): string {
    return this.#key;
  }

  get record(): WriterRecord | undefined {
    return this.#seen?.record;
  }

  get version(): MetaVersion | undefined {
    return this.#seen?.version;
  }

  /** The tenure that the record names for this star, once it was claimed. */
  get own(): Tenure {
    const record = this.#seen?.record;
    assert(record?.kind === 'tenure', 'T1 the writer record names this tenure');
    return record.tenure;
  }

  /** Whose tenure stood in the way of the last claim; undefined when the stream was deleted. */
  get rival(): Tenure | undefined {
    const entry = this.#conflict?.entry;
    if (entry === undefined) return undefined;
    const record = parseRecordValue(writerRecord, entry.key, entry.value);
    return record.kind === 'deleted' ? undefined : record.tenure;
  }

  /** What stood in the way of the last claim, newer than what a read may answer; handed out once. */
  takeConflict(): { readonly entry: MetaEntry | undefined } | undefined {
    const conflict = this.#conflict;
    this.#conflict = undefined;
    return conflict;
  }

  /** What was read may be old: only the next CAS decides. */
  saw(entry: MetaEntry | undefined): void {
    this.#seen =
      entry === undefined
        ? undefined
        : {
            record: parseRecordValue(writerRecord, entry.key, entry.value),
            version: entry.version,
          };
  }

  /**
   * T1: names the tenure in place of what was seen. R4: the same call moves it to another epoch of
   * this star, only from the version under which the stream was appended to.
   *
   * @returns false when the record is another one by now.
   */
  async claim(tenure: Tenure): Promise<boolean> {
    const put = await this.#put({ kind: 'tenure', tenure });
    if (put.kind === 'conflict') {
      this.#conflict = { entry: put.current };
      return false;
    }
    this.#seen = { record: { kind: 'tenure', tenure, attempt: '' }, version: put.version };
    return true;
  }

  /**
   * The final write of a tenure, from the version under which it led.
   *
   * @returns false when another tenure stands there: this one is over already.
   */
  async leave(
    last: { readonly kind: 'released'; readonly tail: number } | { readonly kind: 'deleted' },
  ): Promise<boolean> {
    const { own } = this;
    const put = await this.#put(
      last.kind === 'deleted'
        ? { kind: 'deleted' }
        : { kind: 'released', tenure: own, tail: last.tail },
    );
    if (put.kind === 'applied') return true;
    // An earlier attempt of the same Finish may have landed after its answer was given up.
    if (put.current === undefined) return false;
    const found = parseRecordValue(writerRecord, this.#key, put.current.value);
    if (last.kind === 'deleted') return found.kind === 'deleted';
    return found.kind === 'released' && found.tail === last.tail && sameTenure(found.tenure, own);
  }

  #put(record: Unwritten<WriterRecord>): Promise<PutResult> {
    const { clock, random, metastore } = this.#ports;
    return conditionalPut(
      metastore,
      {
        key: this.#key,
        expected: this.#seen?.version ?? 'absent',
        encode: (attempt: string) => encodeRecordValue({ ...record, attempt }),
      },
      { clock, random, signal: this.#signal },
    );
  }
}

/** The tenure that a star writes into writer records while the epoch is its head. */
export function tenureOf(epoch: EpochRecord): Tenure {
  const { star, incarnation, class: storageClass } = epoch;
  return { star, incarnation, class: storageClass, epoch: epoch.epoch };
}
