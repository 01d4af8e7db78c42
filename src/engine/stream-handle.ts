import { encodeCommand, commandOf, type StoredRecord } from '../format/records.ts';
import { EngineError, textOf } from '../lib/errors.ts';
import { checkWaitOptions, throwIfAborted, waitFor, type WaitOptions } from '../lib/wait.ts';
import { checkConditions, checkFencingToken } from '../protocol/conditions.ts';
import { checkReadRequest, READ_OPTION_NAMES, readBatches } from '../../actors/stream-reader.ts';
import { LeaderView } from '../../actors/leader-view.ts';
import type { StarActor } from '../../actors/star.actor.ts';
import type { StreamActor } from '../../actors/stream.actor.ts';
import { StreamSession } from '../../actors/stream-sessions.ts';
import type {
  Ack,
  AppendOptions,
  AppendRecord,
  OpenOptions,
  Position,
  ReadOptions,
  ReadRecord,
  RecordReader,
  Stream,
  Ticket,
} from './api.ts';

/** Names that an append takes besides those of every wait. */
export const APPEND_OPTION_NAMES = ['matchSeqNum', 'fencingToken'];

/** One caller's handle of a stream that this engine leads; several handles share the leadership. */
export class StreamHandle implements Stream {
  readonly name: string;
  readonly id: string;
  readonly mode: Stream['mode'];
  readonly #star: StarActor;
  readonly #actor: StreamActor;
  readonly #session: StreamSession;
  #closing: Promise<void> | undefined;

  private constructor(star: StarActor, actor: StreamActor, token: string | undefined) {
    this.#star = star;
    this.#actor = actor;
    this.name = actor.name;
    this.id = actor.record.stream;
    this.mode = actor.record.config.mode;
    this.#session = new StreamSession(token, () => void this.#leave());
  }

  /** @throws EngineError as `Engine.open` does. */
  static async open(star: StarActor, name: string, options: OpenOptions): Promise<StreamHandle> {
    const { fencingToken, ...wait } = options;
    const actor = await star.open(name, wait);
    const handle = new StreamHandle(star, actor, fencingToken);
    try {
      await actor.join(handle.#session, wait);
    } catch (error) {
      star.leave(actor);
      throw error;
    }
    return handle;
  }

  async submit(records: readonly AppendRecord[], options: AppendOptions = {}): Promise<Ticket> {
    this.#checkAppend(options);
    return this.#actor.submit(records, { ...options, session: this.#session });
  }

  async append(records: readonly AppendRecord[], options: AppendOptions = {}): Promise<Ack> {
    this.#checkAppend(options);
    const { signal, timeoutMillis } = options;
    const batch = await this.#actor.submit(records, { ...options, session: this.#session });
    return await batch.answered({ signal, timeoutMillis });
  }

  read(options: ReadOptions = {}): RecordReader {
    this.#check(options, READ_OPTION_NAMES);
    checkReadRequest(options);
    const batches = (): AsyncGenerator<readonly ReadRecord[]> =>
      typedBatches(readBatches(this.#star, new LeaderView(this.#actor), options), options);
    return recordReader(batches);
  }

  async checkTail(options: WaitOptions = {}): Promise<Position> {
    this.#check(options);
    const { clock } = this.#star.ports;
    throwIfAborted(options.signal, 'checkTail');
    await waitFor(clock, this.#actor.confirm(), this.#withDefault(options), 'checkTail');
    return this.#actor.tailPosition;
  }

  trim(seqNum: number, options: AppendOptions = {}): Promise<Ack> {
    return this.append([trimRecord(seqNum)], options);
  }

  fence(fencingToken: string, options: AppendOptions = {}): Promise<Ack> {
    return this.append([fenceRecord(fencingToken)], options);
  }

  /** Idempotent; a later call waits for the same Finish. */
  async close(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    throwIfAborted(options.signal, 'close');
    await waitFor(this.#star.ports.clock, this.#leave(), this.#withDefault(options), 'close');
  }

  /** One handle less; the last one waits for the Finish. */
  #leave(): Promise<void> {
    if (this.#closing === undefined) {
      this.#actor.part(this.#session);
      this.#star.leave(this.#actor);
      this.#closing = this.#actor.handleCount > 0 ? Promise.resolve() : this.#actor.ended({});
    }
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #withDefault(options: WaitOptions): WaitOptions {
    return withDefaultTimeout(options, this.#star.settings.defaultTimeoutMillis);
  }

  #checkAppend(options: AppendOptions): void {
    this.#check(options, APPEND_OPTION_NAMES);
    checkConditions(options);
  }

  #check(options: WaitOptions, more?: readonly string[]): void {
    checkWaitOptions(options, more);
    this.#throwIfClosed();
  }

  #throwIfClosed(): void {
    if (this.#session.ended !== undefined) throw this.#session.ended;
    if (this.#closing === undefined) return;
    throw new EngineError('CLOSED', 'this handle was closed', { details: { stream: this.name } });
  }
}

/** @throws EngineError INVALID_POSITION */
export function trimRecord(seqNum: number): AppendRecord {
  if (Number.isSafeInteger(seqNum) && seqNum >= 0) {
    return encodeCommand({ command: 'trim', trimPoint: seqNum });
  }
  throw new EngineError('INVALID_POSITION', 'a trim point is a safe integer from 0', {
    details: { seqNum: textOf(seqNum), min: 0, max: Number.MAX_SAFE_INTEGER },
  });
}

/** @throws EngineError INVALID_OPTION */
export function fenceRecord(fencingToken: string): AppendRecord {
  checkFencingToken(fencingToken);
  return encodeCommand({ command: 'fence', fencingToken });
}

export function withDefaultTimeout<T extends WaitOptions>(options: T, defaultMillis: number): T {
  if (options.timeoutMillis !== undefined || defaultMillis === 0) return options;
  return { ...options, timeoutMillis: defaultMillis };
}

/** Records one by one or in arrays from the same source. */
export function recordReader(batches: () => AsyncGenerator<readonly ReadRecord[]>): RecordReader {
  return {
    batches,
    async *[Symbol.asyncIterator]() {
      for await (const batch of batches()) yield* batch;
    },
  };
}

/** Types command records, or leaves them out. */
export async function* typedBatches(
  batches: AsyncIterable<readonly StoredRecord[]>,
  options: Pick<ReadOptions, 'ignoreCommands'>,
): AsyncGenerator<readonly ReadRecord[]> {
  for await (const batch of batches) {
    const typed = batch.map(typedRecord);
    const wanted =
      options.ignoreCommands === true
        ? typed.filter(({ command }) => command === undefined)
        : typed;
    if (wanted.length > 0) yield wanted;
  }
}

function typedRecord(record: StoredRecord): ReadRecord {
  if (record.headers.length !== 1) return record;
  const command = commandOf(record);
  if (command === undefined) return record;
  return command.command === 'fence'
    ? { ...record, command: { kind: 'fence', fencingToken: command.fencingToken } }
    : { ...record, command: { kind: 'trim', trimPoint: command.trimPoint } };
}
