import type { Dispatcher } from 'undici';
import { deferred } from '../../lib/wait.ts';
import type { BodyTracker } from './body-tracker.ts';

export interface RequestOptions {
  readonly method: Dispatcher.HttpMethod;
  /** With the query, if any. */
  readonly path: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body?: Buffer | undefined;
  /** The rest of a longer answer is not read. */
  readonly answerBytesMax: number;
}

export interface Reply {
  readonly status: number;
  header(name: string): string | undefined;
  /** Memory of the reader alone. */
  readonly body: Uint8Array;
  /** There was more than `answerBytesMax`. */
  readonly isCut: boolean;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** How far one came: `unsent` says that nothing of the request can have reached the server. */
export type ExchangeStage = 'unsent' | 'sent' | 'answered';

/** An exchange that the network ended. */
export class BrokenExchange extends Error {
  readonly stage: ExchangeStage;

  constructor(stage: ExchangeStage, cause: Error) {
    super('connection broke', { cause });
    this.name = 'BrokenExchange';
    this.stage = stage;
  }
}

/** One request and its answer, from the dispatch to the last byte, with one end whatever happens. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly reply: Promise<Reply>;
  readonly #request: RequestOptions;
  readonly #bodies: BodyTracker;
  readonly #end = deferred<Reply>();
  readonly #body: Buffer | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: Error | undefined;
  #holdsBody = false;
  #ending: (() => void) | undefined;
  #status = 0;
  #headers: Headers = {};
  #answer = new Uint8Array(0);
  #lengthBytes = 0;
  #isCut = false;

  constructor(request: RequestOptions, bodies: BodyTracker) {
    this.#request = request;
    this.#bodies = bodies;
    this.#body = request.body?.byteLength === 0 ? undefined : request.body;
    this.reply = this.#end.promise;
  }

  get #stage(): ExchangeStage {
    // The client begins a request once it has a connection, right before the first byte.
    if (this.#controller === undefined) return 'unsent';
    return this.#status === 0 ? 'sent' : 'answered';
  }

  /** Ends the request and its connection; before it was sent, nothing of it will be. */
  abort(reason: Error): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = reason;
    if (this.#controller !== undefined) this.#controller.abort(reason);
    // Still waiting for a connection: there it is dropped when its turn comes.
    else this.#finish(() => this.#end.reject(reason));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#aborted !== undefined) {
      controller.abort(this.#aborted);
      return;
    }
    this.#controller = controller;
    if (this.#body === undefined) return;
    // It is written to the socket right after this.
    this.#holdsBody = true;
    this.#bodies.expect(this.#body, () => {
      this.#holdsBody = false;
      this.#settle();
    });
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    // Interim answers.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    const announced = Number(this.#header('content-length'));
    const sizeBytes = Number.isSafeInteger(announced) ? announced : 4_096;
    this.#answer = new Uint8Array(Math.min(sizeBytes, this.#request.answerBytesMax));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = this.#request.answerBytesMax - this.#lengthBytes;
    const part = chunk.byteLength > room ? chunk.subarray(0, room) : chunk;
    const lengthBytes = this.#lengthBytes + part.byteLength;
    if (lengthBytes > this.#answer.byteLength) this.#grow(lengthBytes);
    this.#answer.set(part, this.#lengthBytes);
    this.#lengthBytes = lengthBytes;
    if (part === chunk) return;
    this.#isCut = true;
    this.#finish(() => this.#end.resolve(this.#toReply()));
    controller.abort(new Error('answer is longer than expected'));
  }

  onResponseEnd(): void {
    this.#finish(() => this.#end.resolve(this.#toReply()));
    // Answered before it had all of it: it may never read the rest.
    if (this.#holdsBody) this.#bodies.cut(this.#body!);
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#finish(() => this.#end.reject(this.#aborted ?? new BrokenExchange(this.#stage, error)));
  }

  /** The first end counts, and is told once the body is free. */
  #finish(end: () => void): void {
    this.#ending ??= end;
    this.#settle();
  }

  #settle(): void {
    if (this.#ending === undefined || this.#holdsBody) return;
    if (this.#body !== undefined) this.#bodies.forget(this.#body);
    this.#ending();
  }

  #grow(lengthBytes: number): void {
    const larger = new Uint8Array(
      Math.min(this.#request.answerBytesMax, Math.max(lengthBytes, 2 * this.#answer.byteLength)),
    );
    larger.set(this.#answer);
    this.#answer = larger;
  }

  #toReply(): Reply {
    return {
      status: this.#status,
      header: (name) => this.#header(name),
      body: this.#answer.subarray(0, this.#lengthBytes),
      isCut: this.#isCut,
    };
  }

  #header(name: string): string | undefined {
    const value = this.#headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }
}
