/**
 * Engines of one process that reach each other through memory: the transport of tests and of the
 * simulator, which decides when what is sent arrives. No timers of its own.
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

/** Lets `run` happen at the engine `to` after what was carried there from `from` before, or never. */
export type Carry = (from: string, to: string, run: () => void) => void;

/** Which engines can be reached; tests cut them off or let them fall silent. */
export class MemoryPeerNetwork {
  readonly #members = new Map<string, MemoryPeers>();
  readonly #silent = new Set<string>();
  readonly #carry: Carry;
  #count = 0;

  /** @param carry - at once by default. */
  constructor(carry: Carry = (_from, _to, run) => run()) {
    this.#carry = carry;
  }

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

  carry(from: string, to: string, run: () => void): void {
    if (!this.#silent.has(from) && !this.#silent.has(to)) this.#carry(from, to, run);
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
    if (other?.accepting === undefined) {
      throw new EngineError('PEER_UNAVAILABLE', 'no engine listens there', {
        details: { address },
      });
    }
    const network = this.#network;
    const near = new MemoryChannel(network, { own: this.address, peer: address }, this.#channels);
    await new Promise<void>((resolve, reject) => {
      const back = (error?: EngineError): void =>
        network.carry(address, this.address, () => {
          if (error === undefined) resolve();
          else reject(error);
        });
      network.carry(this.address, address, () => {
        const accept = other.accepting;
        if (other.#token !== this.#token) {
          near.destroy();
          back(refused(address));
        } else if (accept === undefined) {
          near.destroy();
          back(
            new EngineError('PEER_UNAVAILABLE', 'nobody listens there', { details: { address } }),
          );
        } else {
          const place = { own: address, peer: this.address, isAccepted: true };
          const far = new MemoryChannel(network, place, other.#channels);
          near.connect(far);
          far.connect(near);
          accept(far);
          back();
        }
      });
    });
    return near;
  }

  breakChannels(address: string): void {
    for (const channel of [...this.#channels]) {
      if (this.address !== address && channel.peer !== address) continue;
      this.#network.carry(channel.peer, this.address, () => channel.break());
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#accept = undefined;
    this.#network.leave(this);
    for (const channel of [...this.#channels]) channel.destroy();
  }
}

function refused(address: string): EngineError {
  return new EngineError('PEER_REFUSED', 'the engine there wants another token', {
    details: { address },
  });
}

interface ChannelPlace {
  readonly own: string;
  readonly peer: string;
  readonly isAccepted?: boolean;
}

class MemoryChannel implements PeerChannel {
  readonly peer: string;
  readonly isAccepted: boolean;
  readonly #network: MemoryPeerNetwork;
  readonly #own: string;
  readonly #registry: Set<MemoryChannel>;
  readonly #arrived: Uint8Array[] = [];
  readonly #roomWaiters: (() => void)[] = [];
  #other: MemoryChannel | undefined;
  /** Sent, and not known to be received. */
  #sentBytes = 0;
  #ended = false;
  #otherEnded = false;
  #broken = false;
  #wake: (() => void) | undefined;

  constructor(network: MemoryPeerNetwork, place: ChannelPlace, registry: Set<MemoryChannel>) {
    this.#network = network;
    this.#own = place.own;
    this.peer = place.peer;
    this.isAccepted = place.isAccepted ?? false;
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
    this.#sentBytes += message.length;
    this.#carry((other) => {
      other.#arrived.push(message);
      other.#wake?.();
    });
    while (this.#sentBytes > WINDOW_BYTES && !this.#isBroken()) {
      await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    }
    if (this.#isBroken()) throw this.#overError();
  }

  async receive(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#broken) throw this.#overError();
      const message = this.#arrived.shift();
      if (message !== undefined) {
        this.#carry((other) => other.#received(message.length));
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
    this.#forgetIfOver();
    this.#carry((other) => {
      other.#otherEnded = true;
      other.#wake?.();
      other.#forgetIfOver();
    });
  }

  destroy(): void {
    if (this.#broken) return;
    this.break();
    this.#carry((other) => other.break());
  }

  break(): void {
    if (this.#broken) return;
    this.#broken = true;
    this.#wake?.();
    this.#tellRoom();
    this.#registry.delete(this);
  }

  #received(bytes: number): void {
    this.#sentBytes -= bytes;
    this.#tellRoom();
  }

  #carry(run: (other: MemoryChannel) => void): void {
    const other = this.#other;
    if (other !== undefined) this.#network.carry(this.#own, this.peer, () => run(other));
  }

  #tellRoom(): void {
    for (const resolve of this.#roomWaiters.splice(0)) resolve();
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
