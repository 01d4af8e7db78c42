/**
 * A handle of a stream that another engine leads: calls go to the holder, and after a takeover to the
 * next one, which may be this engine. The promises are those of a local handle; an append whose
 * answer was lost is INDETERMINATE and never sent again.
 */
import { commandOf, type StoredRecord } from '../../format/records.ts';
import { EngineError } from '../../lib/errors.ts';
import {
  givenUpError,
  checkWaitOptions,
  linkedSignal,
  throwIfAborted,
  waitFor,
  type WaitOptions,
} from '../../lib/wait.ts';
import { checkBatch, type CheckedBatch } from '../../protocol/batch.ts';
import { checkConditions } from '../../protocol/conditions.ts';
import { checkReadRequest, READ_OPTION_NAMES } from '../../../actors/stream-reader.ts';
import type {
  Ack,
  AppendOptions,
  AppendRecord,
  Position,
  ReadOptions,
  RecordReader,
  Stream,
  Ticket,
} from '../api.ts';
import {
  APPEND_OPTION_NAMES,
  fenceRecord,
  recordReader,
  trimRecord,
  typedBatches,
  withDefaultTimeout,
} from '../stream-handle.ts';
import { HolderSearch } from './holder-search.ts';
import { Submissions } from './submissions.ts';
import { isMoved, type Target } from './target.ts';
import type { ForwardedHost } from './forwarder.ts';

export class ForwardedStream implements Stream {
  readonly name: string;
  readonly #host: ForwardedHost;
  readonly #search: HolderSearch;
  readonly #submissions: Submissions;
  #identity: Pick<Stream, 'id' | 'mode'> | undefined;
  /** Of a handle that was opened under one; what it installs itself follows. */
  #fencingToken: string | undefined;
  #closing: Promise<void> | undefined;

  constructor(host: ForwardedHost, name: string, fencingToken: string | undefined) {
    this.name = name;
    this.#host = host;
    this.#fencingToken = fencingToken;
    const { clock, random } = host.ports;
    this.#submissions = new Submissions({
      clock,
      onWanted: () => this.#search.want(),
      onMoved: (target, error) => this.#drop(target, error),
      trouble: () => this.#search.trouble,
    });
    this.#search = new HolderSearch({
      clock,
      random,
      find: (signal) => this.#find(signal),
      onFound: (target) => this.#submissions.attach(target),
      onFailed: (error) => this.#submissions.rejectWaiting(error),
      isWanted: () => this.#submissions.waitingCount > 0,
    });
  }

  /** @throws EngineError as `Engine.open` does; PEER_REFUSED */
  async opened(options: WaitOptions): Promise<this> {
    await this.#search.target(options);
    return this;
  }

  get id(): string {
    return this.#identity!.id;
  }

  get mode(): Stream['mode'] {
    return this.#identity!.mode;
  }

  async submit(records: readonly AppendRecord[], options: AppendOptions = {}): Promise<Ticket> {
    this.#check(options, APPEND_OPTION_NAMES);
    checkConditions(options);
    // Whether a stream wants timestamps of its clients is for the holder to say.
    const batch = checkBatch(records, false);
    this.#host.count(batch);
    const installed = batch.hasCommands ? tokenInstalledBy(batch) : undefined;
    const ticket = await this.#submissions.submit(batch, this.#withDefault(options));
    if (this.#fencingToken !== undefined) this.#fencingToken = installed ?? this.#fencingToken;
    return ticket;
  }

  async append(records: readonly AppendRecord[], options: AppendOptions = {}): Promise<Ack> {
    const ticket = await this.submit(records, options);
    const { signal, timeoutMillis } = options;
    return ticket.ack({ signal, timeoutMillis });
  }

  trim(seqNum: number, options: AppendOptions = {}): Promise<Ack> {
    return this.append([trimRecord(seqNum)], options);
  }

  fence(fencingToken: string, options: AppendOptions = {}): Promise<Ack> {
    return this.append([fenceRecord(fencingToken)], options);
  }

  async checkTail(options: WaitOptions = {}): Promise<Position> {
    this.#check(options);
    throwIfAborted(options.signal, 'checkTail');
    const { clock } = this.#host.ports;
    const limited = linkedSignal(clock, this.#withDefault(options), 'checkTail');
    try {
      for (;;) {
        const target = await this.#search.target({ signal: limited.signal });
        try {
          return await target.checkTail({ signal: limited.signal });
        } catch (error) {
          if (limited.signal.aborted || !isMoved(error)) throw error;
          this.#drop(target, error);
        }
      }
    } catch (error) {
      throw limited.signal.aborted ? givenUpError(limited.signal, 'call') : error;
    } finally {
      limited.release();
    }
  }

  read(options: ReadOptions = {}): RecordReader {
    this.#check(options, READ_OPTION_NAMES);
    checkReadRequest(options);
    return recordReader(() => typedBatches(this.#records(options), options));
  }

  /** Goes on behind the last record at whoever leads, so that nothing is left out or comes twice. */
  async *#records(options: ReadOptions): AsyncGenerator<readonly StoredRecord[], void, void> {
    throwIfAborted(options.signal, 'read');
    const { live, from, tailOffset, timestamp } = options;
    const limited = linkedSignal(this.#host.ports.clock, options, 'read');
    const { signal } = limited;
    let next: number | undefined;
    let limit = options.limit;
    try {
      for (;;) {
        const target = await this.#search.target({ signal });
        const start = next === undefined ? { from, tailOffset, timestamp } : { from: next };
        try {
          const onStart = (position: number): void => {
            next ??= position;
          };
          for await (const records of target.read({ ...start, live, limit, signal }, onStart)) {
            next = records.at(-1)!.seqNum + 1;
            if (limit !== undefined) limit -= records.length;
            yield records;
            if (limit === 0) return;
          }
          return;
        } catch (error) {
          if (signal.aborted || !isMoved(error)) throw error;
          this.#throwIfClosed();
          this.#drop(target, error);
        }
      }
    } catch (error) {
      throw signal.aborted ? givenUpError(signal, 'call') : error;
    } finally {
      limited.release();
    }
  }

  /** Waits for what was submitted, then lets the holder go: its leadership is its own affair. */
  async close(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    throwIfAborted(options.signal, 'close');
    // Once for all who close; each of them waits as long as it likes.
    this.#closing ??= this.#close(this.#withDefault({}));
    this.#closing.catch(() => undefined);
    await waitFor(this.#host.ports.clock, this.#closing, this.#withDefault(options), 'close');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Lets go at once: what was sent and not answered is indeterminate. */
  abandon(error: EngineError): void {
    this.#closing ??= Promise.resolve();
    this.#submissions.close(error);
    this.#search.abandon(error);
    this.#host.forget(this);
  }

  async #close(options: WaitOptions): Promise<void> {
    const closed = this.#closedError();
    this.#submissions.close(closed);
    try {
      await this.#search.close(options);
    } finally {
      this.#search.stop(closed);
      this.#host.forget(this);
    }
  }

  async #find(signal: AbortSignal): Promise<Target> {
    const target = await this.#host.find(this.#fencingToken, signal);
    this.#identity ??= { id: target.id, mode: target.mode };
    if (this.#identity.id === target.id) return target;
    target.close({}).catch(() => undefined);
    throw new EngineError('STREAM_DELETED', 'another stream has this name by now', {
      details: { stream: this.name, id: this.#identity.id },
    });
  }

  #drop(target: Target, error: EngineError): void {
    this.#search.drop(target, error);
    this.#submissions.detach(target);
  }

  #withDefault<T extends WaitOptions>(options: T): T {
    return withDefaultTimeout(options, this.#host.settings.defaultTimeoutMillis);
  }

  #check(options: WaitOptions, more?: readonly string[]): void {
    checkWaitOptions(options, more);
    this.#throwIfClosed();
  }

  #throwIfClosed(): void {
    if (this.#closing !== undefined) throw this.#closedError();
  }

  #closedError(): EngineError {
    return new EngineError('CLOSED', 'this handle was closed', { details: { stream: this.name } });
  }
}

/** The last fencing token that the batch installs. */
function tokenInstalledBy({ records }: CheckedBatch): string | undefined {
  let token: string | undefined;
  for (const { headers = [], body = '' } of records) {
    const command = commandOf({ headers, body });
    if (command?.command === 'fence') token = command.fencingToken;
  }
  return token;
}
