/** This engine as the holder: a handle that was forwarded goes on here after a takeover. */
import type { EngineError } from '../../lib/errors.ts';
import type { WaitOptions } from '../../lib/wait.ts';
import type { StoredRecord } from '../../format/records.ts';
import type { CheckedBatch } from '../../protocol/batch.ts';
import { LeaderView } from '../../../actors/leader-view.ts';
import type { StarActor } from '../../../actors/star.actor.ts';
import { readBatches, type ReadRequest } from '../../../actors/stream-reader.ts';
import type { AppendOptions, Position, Stream, Ticket } from '../api.ts';
import { StreamHandle } from '../stream-handle.ts';
import { movedError } from '../../../actors/stream-errors.ts';
import type { Target } from './target.ts';

export class LocalTarget implements Target {
  readonly id: string;
  readonly mode: Stream['mode'];
  readonly address = undefined;
  /** Never told: batches wait in the admission queue of the star. */
  onRoom = (): void => undefined;
  readonly #star: StarActor;
  readonly #handle: StreamHandle;

  constructor(star: StarActor, handle: StreamHandle) {
    this.#star = star;
    this.#handle = handle;
    this.id = handle.id;
    this.mode = handle.mode;
  }

  hasRoom(): boolean {
    return true;
  }

  submit({ records }: CheckedBatch, request: AppendOptions): Promise<Ticket> {
    return this.#handle.submit(records, request);
  }

  checkTail(options: WaitOptions): Promise<Position> {
    return this.#handle.checkTail(options);
  }

  async *read(
    request: ReadRequest,
    onStart: (position: number) => void,
  ): AsyncGenerator<readonly StoredRecord[], void, void> {
    const actor = this.#star.streams.get(this.#handle.name);
    if (actor?.isLeading !== true) throw movedError(this.#handle.name);
    yield* readBatches(this.#star, new LeaderView(actor), { ...request, onStart });
  }

  close(options: WaitOptions): Promise<void> {
    return this.#handle.close(options);
  }

  abandon(_error: EngineError): void {
    this.#handle.close().catch(() => undefined);
  }
}
