/**
 * Engines that reach each other over HTTP/2 without TLS, on node's own implementation: one connection
 * to each address, one of its streams a channel. For networks that are trusted, or tunnelled.
 */
import { isIPv6 } from 'node:net';
import { EngineError } from '../../lib/errors.ts';
import { throwIfAborted, type WaitOptions } from '../../lib/wait.ts';
import { SILENT_LOG, type Log } from '../../ports/log.ts';
import type { PeerChannel, PeerListener, Peers } from '../../ports/peers.ts';
import { unavailable } from './http2-channel.ts';
import { PeerConnection } from './http2-connection.ts';
import { PeerServer } from './http2-server.ts';
import { PEER_LIMITS, type PeerLimits } from './limits.ts';

export interface Http2PeersOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  readonly token: string;
  /** What other engines connect to, `host` or `host:port`; default: the place listened at. */
  readonly advertise?: string | undefined;
  readonly log?: Log | undefined;
  readonly limits?: Partial<PeerLimits>;
}

const ADDRESS = /^(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\]):[0-9]{1,5}$/i;

export class Http2Peers implements Peers {
  readonly #options: Http2PeersOptions;
  readonly #limits: PeerLimits;
  /** By address; a connection that is over makes room for the next one. */
  readonly #usable = new Map<string, PeerConnection>();
  readonly #living = new Set<PeerConnection>();
  #server: PeerServer | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: Http2PeersOptions) {
    this.#options = options;
    this.#limits = { ...PEER_LIMITS, ...options.limits };
  }

  get connections(): Peers['connections'] {
    return { accepted: this.#server?.connectionCount ?? 0, opened: this.#living.size };
  }

  async listen(accept: (channel: PeerChannel) => void): Promise<PeerListener> {
    const { host, port, token, advertise, log = SILENT_LOG } = this.#options;
    this.#server = await PeerServer.listen({
      host,
      port,
      token,
      log,
      limits: this.#limits,
      accept,
    });
    const own = advertise ?? (isIPv6(host) ? `[${host}]` : host);
    return { address: ADDRESS.test(own) ? own : `${own}:${this.#server.port}` };
  }

  async open(address: string, options: WaitOptions = {}): Promise<PeerChannel> {
    throwIfAborted(options.signal, 'connect');
    if (this.#closing !== undefined) {
      throw new EngineError('CLOSED', 'connections to other engines were closed');
    }
    if (!ADDRESS.test(address) || !URL.canParse(`http://${address}`))
      throw unavailable(address, 'an address is host:port', undefined);
    return this.#connectionTo(address).open(this.#options.token, options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  #connectionTo(address: string): PeerConnection {
    const known = this.#usable.get(address);
    if (known?.isUsable === true) return known;
    const made = new PeerConnection(address, this.#limits, (over) => {
      this.#living.delete(over);
      if (this.#usable.get(address) === over) this.#usable.delete(address);
    });
    this.#living.add(made);
    this.#usable.set(address, made);
    return made;
  }

  async #close(): Promise<void> {
    for (const connection of this.#living) connection.destroy();
    await this.#server?.close();
  }
}
