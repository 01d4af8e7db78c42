/**
 * An HTTP proxy between a client and a server on this machine that goes wrong where a test tells it to.
 * It passes requests on as they are, `Host` included, so that what the client signed stays true. Rules
 * are those of the server in memory (test/support/s3/fault-rules.ts): `commit` means that the server
 * got the request and has answered.
 */
import { Agent, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { deferred, type Deferred } from '../../../src/lib/wait.ts';
import { FaultRules, type Fault, type SeenRequest } from '../s3/fault-rules.ts';
import { bytesOf, passOn, scriptedAnswer, sendAnswer, type PassedAnswer } from './messages.ts';

export interface ProxiedRequest extends SeenRequest {
  /** It went to the server, which the client cannot take back. */
  sent: boolean;
  /** The server's answer to it; undefined while there is none. */
  serverStatus: number | undefined;
  /** What the client was answered; undefined while, or if, there is nothing. */
  clientStatus: number | undefined;
  /** Its connection ended before there was an answer. */
  isAbandoned: boolean;
  /** Sent again by a rule of the proxy. */
  readonly isDuplicate: boolean;
}

/** Longer than any client of a test waits. */
const IDLE_MILLIS = 20_000;

export class FaultProxy {
  readonly faults = new FaultRules();
  readonly log: ProxiedRequest[] = [];
  /** What the server got and has not answered, whether the client still waits or not. */
  readonly inFlight = new Set<ProxiedRequest>();
  readonly #target: URL;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MILLIS });
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch(() => request.socket.destroy());
  });
  readonly #numbers = new WeakMap<Socket, number>();
  #connections = 0;
  #partition: Deferred<void> | undefined;

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server.on('connection', (socket) => this.#numbers.set(socket, ++this.#connections));
  }

  static async start(target: string): Promise<FaultProxy> {
    const proxy = new FaultProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /**
   * Silence both ways until `heal`, as if every packet were lost: what a client gave up meanwhile never
   * arrives, and what the server had got before goes on there.
   */
  partition(): void {
    this.#partition ??= deferred<void>();
  }

  heal(): void {
    this.#partition?.resolve();
    this.#partition = undefined;
  }

  async close(): Promise<void> {
    this.heal();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const seen = this.#note(request);
    response.once('close', () => (seen.isAbandoned = seen.clientStatus === undefined));
    const body = await bytesOf(request);
    await this.#connected();
    if (request.socket.destroyed) return;
    // Only now: who waits for a request to be held may kill its client at once.
    const fault = this.faults.take(seen);
    const answer = await this.#act(request, seen, body, fault);
    if (answer === 'silence') return;
    await this.#connected();
    if (answer === 'reset') request.socket.destroy();
    else this.#answer(seen, response, answer, fault);
  }

  /** The answer for the client; or what becomes of its connection without one. */
  async #act(
    request: IncomingMessage,
    seen: ProxiedRequest,
    body: Buffer,
    fault: Fault | undefined,
  ): Promise<PassedAnswer | 'reset' | 'silence'> {
    switch (fault?.kind) {
      case undefined:
      case 'truncate':
      case 'corrupt':
        break;
      case 'drop':
        return 'reset';
      case 'stall':
        return 'silence';
      case 'delay':
        await sleep(fault.millis);
        break;
      case 'hold':
        await fault.until;
        break;
      case 'commit-then-reset':
        await this.#send(request, seen, body);
        return 'reset';
      case 'commit-then-stall':
        await this.#send(request, seen, body);
        return 'silence';
      case 'answer':
        if (fault.commit === true) await this.#send(request, seen, body);
        return scriptedAnswer(fault);
      case 'duplicate':
        void this.#sendAgain(request, body, fault.afterMillis);
        break;
      default:
        throw new Error(`the proxy has no fault ${String(fault?.kind)}`);
    }
    return this.#send(request, seen, body);
  }

  async #send(request: IncomingMessage, seen: ProxiedRequest, body: Buffer): Promise<PassedAnswer> {
    seen.sent = true;
    this.inFlight.add(seen);
    try {
      const answer = await passOn(request, body, { target: this.#target, agent: this.#agent });
      seen.serverStatus = answer.status;
      return answer;
    } finally {
      this.inFlight.delete(seen);
    }
  }

  async #sendAgain(request: IncomingMessage, body: Buffer, afterMillis: number): Promise<void> {
    await sleep(afterMillis);
    const seen = this.#note(request, true);
    await this.#send(request, seen, body).catch(() => undefined);
  }

  #answer(
    seen: ProxiedRequest,
    response: ServerResponse,
    answer: PassedAnswer,
    fault: Fault | undefined,
  ): void {
    if (response.socket?.destroyed !== false) return;
    seen.clientStatus = answer.status;
    const shape =
      fault?.kind === 'truncate' ? 'half' : fault?.kind === 'corrupt' ? 'wrong' : 'whole';
    sendAnswer(response, answer, shape);
  }

  async #connected(): Promise<void> {
    while (this.#partition !== undefined) await this.#partition.promise;
  }

  #note(request: IncomingMessage, isDuplicate = false): ProxiedRequest {
    const url = new URL(request.url!, this.#target);
    const [bucket = '', ...key] = decodeURIComponent(url.pathname).slice(1).split('/');
    const seen: ProxiedRequest = {
      method: request.method!,
      bucket,
      key: key.join('/'),
      query: url.searchParams,
      headers: request.headers,
      connection: this.#numbers.get(request.socket) ?? 0,
      sent: false,
      serverStatus: undefined,
      clientStatus: undefined,
      isAbandoned: false,
      isDuplicate,
    };
    this.log.push(seen);
    return seen;
  }
}
