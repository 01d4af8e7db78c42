import type { StreamState } from '../src/protocol/records.ts';
import type { ReadView, RecentEntry } from './stream-reader.ts';
import type { StreamTail, TailEntry } from './stream-tail.ts';

/** What a leader shows its readers: the acknowledged tail, and entries that rows need not be asked for. */
export interface LeaderState {
  readonly name: string;
  readonly streamId: string;
  readonly tail: StreamTail;
  readonly durableState: StreamState;
  confirm(): Promise<void>;
  tailBeyond(seqNum: number, signal: AbortSignal): Promise<void>;
}

export class LeaderView implements ReadView {
  readonly #leader: LeaderState;

  constructor(leader: LeaderState) {
    this.#leader = leader;
  }

  get name(): string {
    return this.#leader.name;
  }

  get streamId(): string {
    return this.#leader.streamId;
  }

  get firstSeqNum(): number {
    return this.#leader.durableState.trimPoint;
  }

  get tailSeqNum(): number {
    return this.#leader.tail.end;
  }

  get recentStart(): number {
    return this.#leader.tail.start;
  }

  recent(seqNum: number): RecentEntry | undefined {
    return recentOf(this.#leader.tail.find(seqNum));
  }

  recentByTimestamp(timestamp: number): RecentEntry | undefined {
    return recentOf(this.#leader.tail.findEntryByTimestamp(timestamp));
  }

  confirm(): Promise<void> {
    return this.#leader.confirm();
  }

  tailBeyond(seqNum: number, signal: AbortSignal): Promise<void> {
    return this.#leader.tailBeyond(seqNum, signal);
  }
}

function recentOf(found: TailEntry | undefined): RecentEntry | undefined {
  if (found === undefined) return undefined;
  const { span, flight, entry, source } = found;
  return { span, source, copy: () => flight.copyEntry(entry) };
}
