/**
 * Engines of one process that reach each other through memory: the transport of tests and of the
 * simulator. No timers; what is sent arrives in later microtasks, in order.
 */
import { EngineError } from '../../lib/errors.ts';
import { throwIfAborted, type WaitOptions } from '../../lib/wait.ts';
import type { PeerChannel, PeerListener, Peers } from '../../ports/peers.ts';

/** Bytes that a side may have sent beyond what the other has received. */
const WINDOW_BYTES = 1024 * 1024;

export interface MemoryPeersOptions {
  readonly token: string;
  /** Default: a number behind `memory:`. */
  readonly address?: string;
}

/** Which engines can be reached; tests cut them off or let them fall silent. */
export class MemoryPeerNetwork {
  readonly #members = new Map<string, MemoryPeers>();
  readonly #silent = new Set<string>();
  #count = 0;

  join(options: MemoryPeersOptions): MemoryPeers {
    return new MemoryPeers(this, {
      ...options,
      address: options.address ?? `memory:${(this.#count++).toString()}`,
    });
  }

  /** Breaks every channel from and to the engine, as its death does; later ones may be opened. */
  cut(address: string): void {
    for (const member of this.#members.values()) member.breakChannels(address);
  }

  /** From now on nothing that the engine sends or is sent arrives, and nobody is told. */
  silence(address: string): void {
    this.#silent.add(address);
  }

  isSilent(address: string): boolean {
    return this.#silent.has(address);
  }

  find(address: string): MemoryPeers | undefined {
    return this.#members.get(address);
  }

  enter(member: MemoryPeers): void {
    this.#members.set(member.address, member);
  }

  leave(member: MemoryPeers): void {
    if (this.#members.get(member.address) === member) this.#members.delete(member.address);
  }
}

export class MemoryPeers implements Peers {
  readonly address: string;
  readonly #network: MemoryPeerNetwork;
  readonly #token: string;
  readonly #channels = new Set<MemoryChannel>();
  #accept: ((channel: PeerChannel) => void) | undefined;
  #closed = false;

  constructor(network: MemoryPeerNetwork, options: Required<MemoryPeersOptions>) {
    this.#network = network;
    this.#token = options.token;
    this.address = options.address;
    network.enter(this);
  }

  get connections(): Peers['connections'] {
    const others = (isAccepted: boolean): number =>
      new Set([...this.#channels].filter((c) => c.isAccepted === isAccepted).map((c) => c.peer))
        .size;
    return { accepted: others(true), opened: others(false) };
  }

  get accepting(): ((channel: PeerChannel) => void) | undefined {
    return this.#accept;
  }

  async listen(accept: (channel: PeerChannel) => void): Promise<PeerListener> {
    this.#accept = accept;
    return { address: this.address };
  }

  async open(address: string, options: WaitOptions = {}): Promise<PeerChannel> {
    throwIfAborted(options.signal, 'connect');
    const other = this.#closed ? undefined : this.#network.find(address);
    const accept = other?.accepting;
    if (other === undefined || accept === undefined) {
      throw new EngineError('PEER_UNAVAILABLE', 'no engine listens there', {
        details: { address },
      });
    }
    if (other.#token !== this.#token) {
      throw new EngineError('PEER_REFUSED', 'the engine there wants another token', {
        details: { address },
      });
    }
    const silent = (): boolean =>
      this.#network.isSilent(address) || this.#network.isSilent(this.address);
    const near = new MemoryChannel({ peer: address, isAccepted: false, silent }, this.#channels);
    const far = new MemoryChannel(
      { peer: this.address, isAccepted: true, silent },
      other.#channels,
    );
    near.connect(far);
    far.connect(near);
    accept(far);
    return near;
  }

  breakChannels(address: string): void {
    for (const channel of [...this.#channels]) {
      if (this.address === address || channel.peer === address) channel.destroy();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#accept = undefined;
    this.#network.leave(this);
    for (const channel of [...this.#channels]) channel.destroy();
  }
}

interface ChannelPlace {
  readonly peer: string;
  readonly isAccepted: boolean;
  readonly silent: () => boolean;
}

class MemoryChannel implements PeerChannel {
  readonly peer: string;
  readonly isAccepted: boolean;
  readonly #place: ChannelPlace;
  readonly #registry: Set<MemoryChannel>;
  readonly #arrived: Uint8Array[] = [];
  readonly #roomWaiters: (() => void)[] = [];
  #other!: MemoryChannel;
  #arrivedBytes = 0;
  #ended = false;
  #otherEnded = false;
  #broken = false;
  #wake: (() => void) | undefined;

  constructor(place: ChannelPlace, registry: Set<MemoryChannel>) {
    this.peer = place.peer;
    this.isAccepted = place.isAccepted;
    this.#place = place;
    this.#registry = registry;
    registry.add(this);
  }

  connect(other: MemoryChannel): void {
    this.#other = other;
  }

  get isOver(): boolean {
    return this.#broken || (this.#ended && this.#otherEnded);
  }

  send(message: Uint8Array): Promise<void> {
    const sent = this.#send(message);
    // Whoever does not wait for room learns of the end by what it receives.
    sent.catch(() => undefined);
    return sent;
  }

  async #send(message: Uint8Array): Promise<void> {
    if (this.#broken || this.#ended) throw this.#overError();
    if (this.#place.silent()) return new Promise(() => undefined);
    this.#other.#arrived.push(message);
    this.#other.#arrivedBytes += message.length;
    this.#other.#wake?.();
    while (this.#other.#arrivedBytes > WINDOW_BYTES && !this.#isBroken()) {
      await new Promise<void>((resolve) => this.#other.#roomWaiters.push(resolve));
    }
    if (this.#isBroken()) throw this.#overError();
  }

  async receive(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#broken) throw this.#overError();
      const message = this.#arrived.shift();
      if (message !== undefined) {
        this.#arrivedBytes -= message.length;
        for (const resolve of this.#roomWaiters.splice(0)) resolve();
        return message;
      }
      if (this.#otherEnded) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  end(): void {
    if (this.#ended || this.#broken) return;
    this.#ended = true;
    if (this.#place.silent()) return;
    this.#other.#otherEnded = true;
    this.#other.#wake?.();
    this.#forgetIfOver();
    this.#other.#forgetIfOver();
  }

  destroy(): void {
    this.#break();
    if (!this.#place.silent()) this.#other.#break();
  }

  #break(): void {
    if (this.#broken) return;
    this.#broken = true;
    this.#wake?.();
    for (const resolve of this.#other.#roomWaiters.splice(0)) resolve();
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
    this.#registry.delete(this);
  }

  #forgetIfOver(): void {
    if (this.isOver) this.#registry.delete(this);
  }

  /** Changes while a promise is awaited, which the compiler does not see. */
  #isBroken(): boolean {
    return this.#broken;
  }

  #overError(): EngineError {
    return new EngineError('PEER_UNAVAILABLE', 'the channel to another engine is over', {
      details: { address: this.peer },
    });
  }
}
