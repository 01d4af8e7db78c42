/**
 * M0 an incarnation has its lease record before it mints. M2 a number is taken before anything is
 * made of it, so that a crash burns it and nothing else. M3 heads of other classes stay as they are.
 */
import { parseLease } from '../../../src/protocol/lease.ts';
import { chainRecord, parseRecordValue, type ChainRecord } from '../../../src/protocol/records.ts';
import type { MetaChange } from '../../../src/testing/meta-journal.ts';
import type { EpochChange } from '../meta-index.ts';
import { epochName } from '../slot-index.ts';
import type { CheckContext, Checker } from './context.ts';

export class MintChecker implements Checker {
  readonly #context: CheckContext;
  readonly #registered = new Set<string>();
  readonly #chains = new Map<string, ChainRecord>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  metaChanged({ key, entry, process }: MetaChange): void {
    if (entry === undefined) return;
    const [folder, star = '', ...rest] = key.split('/');
    if (folder === 'stars') this.#registered.add(parseLease(key, entry.value).incarnation);
    if (folder !== 'chains' || rest.length > 0) return;
    const chain = parseRecordValue(chainRecord, key, entry.value);
    const before = this.#chains.get(star);
    this.#chains.set(star, chain);
    if (before === undefined) return;
    const taken = chain.nextEpoch - 1;
    for (const [storageClass, head] of Object.entries(before.heads)) {
      const now = chain.heads[storageClass as keyof ChainRecord['heads']];
      if (now === head || now === taken) continue;
      const text = `${process} moves the head of ${storageClass} on ${star} from ${head} to ${now}`;
      this.#context.fail('M3', text);
    }
  }

  epochChanged({ process, epoch, record, before }: EpochChange): void {
    if (before !== undefined) return;
    const name = epochName(epoch);
    if (!this.#registered.has(record.incarnation)) {
      this.#context.fail('M0', `${process} mints ${name} under an incarnation without a lease`);
    }
    const next = this.#chains.get(epoch.star)?.nextEpoch ?? 0;
    if (next > epoch.epoch) return;
    this.#context.fail('M2', `${process} mints ${name}, a number that its chain still gives away`);
  }
}
