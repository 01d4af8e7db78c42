/**
 * An S3 server for tests, in memory and in the process of the test. It exists because the servers that
 * npm has ignore the condition of a creation. Strict: whatever is not signed, hashed and addressed as
 * S3 wants it is refused.
 */
import {
  createServer as createPlainServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleepReal } from 'node:timers/promises';
import { expectedSigner, ownAnswer, Sessions, type TestDialect } from './dialects.ts';
import { FaultRules, type Fault, type ScriptedAnswer, type SeenRequest } from './fault-rules.ts';
import { answerOf, TestBucket, type Answer } from './operations.ts';
import { checkSignature, type TestCredentials } from './signature-check.ts';

export interface S3ServerOptions {
  readonly buckets?: readonly string[];
  readonly region?: string;
  /** Plain S3 by default. */
  readonly dialect?: TestDialect;
  /** Idle connections are kept so long, which answers announce; 0: for ever, and unannounced. */
  readonly keepAliveMillis?: number;
  readonly tls?: { readonly key: string; readonly cert: string };
}

export interface LoggedRequest extends SeenRequest {
  /** Undefined while there is no answer. */
  status: number | undefined;
}

export const TEST_REGION = 'test-region-1';

export class S3Server {
  readonly faults = new FaultRules();
  readonly buckets = new Map<string, TestBucket>();
  readonly log: LoggedRequest[] = [];
  /** What the credentials may not do: `s3:PutObject`, or `s3:PutObject a/1` for one key alone. */
  readonly denied = new Set<string>();
  region: string;
  readonly sessions = new Sessions();
  /** Another write of the same key so soon is turned away. */
  sameKeyPauseMillis = 0;
  readonly #wroteAt = new Map<string, number>();
  readonly #dialect: TestDialect;
  credentials: TestCredentials = { accessKeyId: 'AKTEST', secretAccessKey: 'a-secret-of-the-test' };
  /** Added to the clock of the server. */
  clockOffMillis = 0;
  /** What came of bodies after an early answer, or of one that was left unread for a while. */
  readonly lateParts: Buffer[] = [];
  /** Requests whose body has not been read whole yet. */
  arriving = 0;
  /** Numbers of connections that have not ended. */
  readonly open = new Set<number>();
  #connections = 0;
  readonly #numbers = new WeakMap<Socket, number>();
  readonly #server: ReturnType<typeof createPlainServer>;
  readonly #scheme: string;

  private constructor(options: S3ServerOptions) {
    this.region = options.region ?? TEST_REGION;
    this.#dialect = options.dialect ?? 's3';
    for (const name of options.buckets ?? ['bucket']) this.buckets.set(name, new TestBucket());
    const serve = (request: IncomingMessage, response: ServerResponse): void => {
      this.#serve(request, response).catch(() => request.socket.destroy());
    };
    this.#scheme = options.tls === undefined ? 'http' : 'https';
    this.#server =
      options.tls === undefined ? createPlainServer(serve) : createTlsServer(options.tls, serve);
    this.#server.keepAliveTimeout = options.keepAliveMillis ?? 5_000;
    this.#server.on(
      options.tls === undefined ? 'connection' : 'secureConnection',
      (socket: Socket) => {
        const number = ++this.#connections;
        this.#numbers.set(socket, number);
        this.open.add(number);
        socket.once('close', () => this.open.delete(number));
      },
    );
  }

  static async start(options: S3ServerOptions = {}): Promise<S3Server> {
    const server = new S3Server(options);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get endpoint(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  bucket(name = 'bucket'): TestBucket {
    return this.buckets.get(name)!;
  }

  /** Requests of the log that are about this key. */
  requestsFor(key: string): LoggedRequest[] {
    return this.log.filter((request) => request.key === key);
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const seen: LoggedRequest = { ...this.#seen(request), status: undefined };
    this.log.push(seen);
    let fault = this.faults.take(seen);
    if (fault?.kind === 'answer-early') {
      seen.status = fault.status;
      this.arriving++;
      const gone = new Promise((resolve) => request.socket.once('close', resolve));
      await Promise.race([this.#answerEarly(request, response, fault), gone]);
      this.arriving--;
      return;
    }
    this.arriving++;
    if (fault?.kind === 'unread') await fault.until;
    const body = await this.#bodyOf(request, fault).finally(() => this.arriving--);
    if (fault?.kind === 'late') {
      await fault.until;
      fault = fault.then;
    }
    const done = await this.#act(request, seen, body, fault);
    if (done === 'reset') request.socket.destroy();
    if (typeof done !== 'object') return;
    seen.status = done.status;
    const shape = {
      isHalf: fault?.kind === 'truncate' || fault?.kind === 'trickle',
      staysOpen: fault?.kind === 'trickle',
      isWrong: fault?.kind === 'corrupt',
    };
    if (this.clockOffMillis !== 0) {
      response.setHeader('date', new Date(Date.now() + this.clockOffMillis).toUTCString());
    }
    send(response, done, shape);
  }

  /** Answers when the first part of the body is there, and reads the rest a while later. */
  async #answerEarly(
    request: IncomingMessage,
    response: ServerResponse,
    answer: ScriptedAnswer,
  ): Promise<void> {
    let isAnswered = false;
    for await (const chunk of request) {
      this.lateParts.push(chunk as Buffer);
      if (isAnswered) continue;
      isAnswered = true;
      send(response, scripted(answer), {});
      await sleepReal(50);
    }
  }

  async #bodyOf(request: IncomingMessage, fault: Fault | undefined): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
      if (fault?.kind === 'unread') this.lateParts.push(chunk as Buffer);
    }
    return Buffer.concat(chunks);
  }

  /** The answer; or what becomes of the connection without one. */
  async #act(
    request: IncomingMessage,
    seen: SeenRequest,
    body: Buffer,
    fault: Fault | undefined,
  ): Promise<Answer | 'reset' | 'silence'> {
    if (fault?.kind === 'drop') return 'reset';
    if (fault?.kind === 'stall') return 'silence';
    if (fault?.kind === 'answer' && fault.commit !== true) return scripted(fault);
    if (fault?.kind === 'delay') await sleepReal(fault.millis);
    if (fault?.kind === 'hold') await fault.until;
    const answer = await this.#answer(request, seen, body);
    switch (fault?.kind) {
      case 'commit-then-reset':
        return 'reset';
      case 'commit-then-stall':
        return 'silence';
      case 'answer':
        return scripted(fault);
      case 'duplicate':
        setTimeout(() => void this.#answer(request, seen, body), fault.afterMillis);
        return answer;
      default:
        return answer;
    }
  }

  async #answer(request: IncomingMessage, seen: SeenRequest, body: Buffer): Promise<Answer> {
    const expected = expectedSigner(this.#dialect, seen, this.credentials, this.sessions);
    if ('status' in expected) return scripted(expected);
    const complaint = checkSignature(request, body, {
      ...expected,
      region: this.region,
      nowMillis: Date.now() + this.clockOffMillis,
    });
    if (complaint !== undefined) return scripted(complaint);
    if (this.#isTooSoon(seen)) return scripted({ status: 429, code: 'TooManyRequests' });
    const own = ownAnswer(this.#dialect, seen, this.buckets.get(seen.bucket), this.sessions);
    if (own !== undefined) return own;
    return answerOf(this, seen, body);
  }

  #isTooSoon({ method, key }: SeenRequest): boolean {
    if (method !== 'PUT' || this.sameKeyPauseMillis === 0) return false;
    const wroteAt = this.#wroteAt.get(key) ?? -Infinity;
    if (performance.now() - wroteAt < this.sameKeyPauseMillis) return true;
    this.#wroteAt.set(key, performance.now());
    return false;
  }

  #seen(request: IncomingMessage): SeenRequest {
    const url = new URL(request.url!, 'http://server');
    const [host] = (request.headers.host ?? '').split(':');
    const parts = decodeURIComponent(url.pathname).slice(1).split('/');
    const isVirtual = host !== '127.0.0.1' && host !== 'localhost';
    return {
      method: request.method!,
      bucket: isVirtual ? host!.split('.')[0]! : parts[0]!,
      key: (isVirtual ? parts : parts.slice(1)).join('/'),
      query: url.searchParams,
      headers: request.headers,
      connection: this.#numbers.get(request.socket) ?? 0,
    };
  }
}

function scripted({ status, code, more = '', body, headers = {} }: ScriptedAnswer): Answer {
  if (code === undefined) return { status, headers, body: Buffer.from(body ?? '') };
  const xml = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>as the test wants it</Message>${more}<RequestId>request-1</RequestId></Error>`;
  return {
    status,
    headers: { 'content-type': 'application/xml', ...headers },
    body: Buffer.from(xml),
  };
}

function send(
  response: ServerResponse,
  { status, headers, body }: Answer,
  {
    isHalf = false,
    staysOpen = false,
    isWrong = false,
  }: { readonly isHalf?: boolean; readonly staysOpen?: boolean; readonly isWrong?: boolean },
): void {
  const hasBody = status !== 204 && status !== 304;
  response.writeHead(status, {
    'x-amz-request-id': 'request-1',
    ...headers,
    ...(hasBody ? { 'content-length': body.byteLength } : {}),
  });
  if (isHalf) {
    response.write(body.subarray(0, body.byteLength >> 1), () => {
      if (!staysOpen) response.socket?.destroy();
    });
    return;
  }
  const sent = isWrong ? Buffer.from(body) : body;
  if (isWrong && sent.byteLength > 0) sent[0] = sent[0]! ^ 1;
  response.end(hasBody ? sent : undefined);
}
