/**
 * The network between the engines of a world: what one sends arrives at the other after a while, in
 * order; a dead engine's connections break, a paused one hears of it all when it wakes.
 */
import { MemoryPeerNetwork } from '../adapters/memory/peers.ts';
import type { Peers } from '../ports/peers.ts';
import type { Prng } from '../lib/prng.ts';
import type { Scheduler } from './scheduler.ts';
import type { SimulatedProcess } from './simulated-process.ts';

const LATENCY_MILLIS_MAX = 3;
/** How long the other side of a connection may be silent. */
const SILENCE_MILLIS = 10_000;
/** What is due at one time runs in any order: messages of one way are never due at one time. */
const APART_MILLIS = 0.001;

export class SimulatedPeers {
  readonly #scheduler: Scheduler;
  readonly #prng: Prng;
  readonly #network: MemoryPeerNetwork;
  readonly #owners = new Map<string, SimulatedProcess>();
  readonly #watched = new Set<string>();
  /** When the last message of each way arrives. */
  readonly #ways = new Map<string, number>();

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#prng = scheduler.prng('peers');
    this.#network = new MemoryPeerNetwork((from, to, run) => this.#carry(from, to, run));
  }

  /** The process's way to the others, for its engine. */
  join(process: SimulatedProcess): Peers {
    const address = `peer:${process.name}`;
    this.#owners.set(address, process);
    const peers = this.#network.join({ token: 'one for all', address });
    void process.death.then(() => {
      this.#network.leave(peers);
      this.#network.cut(address);
    });
    return peers;
  }

  /** From now on the process reaches nobody and nobody reaches it; their calls just wait. */
  silence(process: SimulatedProcess): void {
    this.#network.silence(`peer:${process.name}`);
  }

  #carry(from: string, to: string, run: () => void): void {
    const way = `${from} ${to}`;
    const { time } = this.#scheduler;
    const latency = this.#prng.fraction() * LATENCY_MILLIS_MAX;
    const at = Math.max(time + latency, (this.#ways.get(way) ?? 0) + APART_MILLIS);
    this.#ways.set(way, at);
    const owner = this.#owners.get(to);
    this.#scheduler.schedule(at - time, `peers ${way}`, run, owner);
    if (owner?.state === 'paused') this.#breakUnlessAwake(to, owner);
  }

  /** The port's promise: a side that gives no sign of life loses its connections. */
  #breakUnlessAwake(address: string, owner: SimulatedProcess): void {
    if (this.#watched.has(address)) return;
    this.#watched.add(address);
    this.#scheduler.schedule(SILENCE_MILLIS, `silence of ${address}`, () => {
      this.#watched.delete(address);
      if (owner.state === 'paused') this.#network.cut(address);
    });
  }
}
