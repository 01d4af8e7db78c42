/** The chain: M0 registered before it mints, M2 numbers from the counter only, M3 classes apart, P how a record ends. */
import { starsPrefix } from '../../../src/protocol/keys.ts';
import { parseLease } from '../../../src/protocol/lease.ts';
import { chainRecord, parseRecordValue, type ChainRecord } from '../../../src/protocol/records.ts';
import type { MetaChange } from '../../../src/testing/meta-journal.ts';
import type { EpochChange } from '../meta-index.ts';
import { epochName } from '../slot-index.ts';
import type { CheckContext, Checker } from './context.ts';

const NOTHING_MINTED: ChainRecord = { nextEpoch: 0, heads: {}, attempt: '' };

export class MintChecker implements Checker {
  readonly #context: CheckContext;
  /** Incarnations that ever held the lease record of their star. */
  readonly #registered = new Set<string>();
  /** Who raised the counter past each number. */
  readonly #taken = new Map<string, string>();
  readonly #chains = new Map<string, ChainRecord>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  metaChanged({ key, entry, process }: MetaChange): void {
    if (entry === undefined) return;
    if (key.startsWith(starsPrefix)) {
      const star = key.slice(starsPrefix.length);
      const lease = parseLease(key, entry.value);
      if (lease.state === 'held') this.#registered.add(`${star} ${lease.incarnation}`);
    } else if (/^chains\/[^/]+$/.test(key)) {
      this.#chainChanged(
        key.split('/')[1]!,
        parseRecordValue(chainRecord, key, entry.value),
        process,
      );
    }
  }

  /** M3: one number after the other, and a mint moves the head of its own class alone. */
  #chainChanged(star: string, record: ChainRecord, process: string): void {
    const { fail } = this.#context;
    const before = this.#chains.get(star) ?? NOTHING_MINTED;
    this.#chains.set(star, record);
    const moved = (['standard', 'express'] as const).filter(
      (storageClass) => before.heads[storageClass] !== record.heads[storageClass],
    );
    if (record.nextEpoch !== before.nextEpoch + 1) {
      fail('M2', `${process} moves the counter of ${star} to ${record.nextEpoch}`);
    }
    const isOther = moved.some((name) => record.heads[name] !== record.nextEpoch - 1);
    if (moved.length > 1 || isOther) {
      fail('M3', `${process} moves ${moved.join(' and ')} of ${star} with one mint`);
    }
    this.#taken.set(epochName({ star, epoch: record.nextEpoch - 1 }), process);
  }

  epochChanged({ process, epoch, record, before }: EpochChange): void {
    const { fail } = this.#context;
    const name = epochName(epoch);
    if (before === undefined) {
      const minter = this.#taken.get(name);
      if (minter !== process) {
        fail('M2', `${process} creates ${name}, a number of ${minter ?? 'nobody'}`);
      }
      if (!this.#registered.has(`${epoch.star} ${record.incarnation}`)) {
        fail('M0', `${process} mints ${name} before it is registered`);
      }
    }
    if ((record.state === 'open') !== (record.cut === undefined)) {
      fail('P', `${process} makes ${name} ${record.state} with the cut ${record.cut ?? 'unknown'}`);
    }
    if (record.state === 'settled' && record.checkpoint !== record.cut) {
      fail('S3', `${process} settles ${name} with the checkpoint ${record.checkpoint}`);
    }
  }
}
