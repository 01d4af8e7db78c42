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
  /** Ways that carry nothing now, with what waits on them, by the addresses in order. */
  readonly #severed = new Map<string, (() => void)[]>();
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

  /**
   * Nothing passes between the two until the returned function is called: what is sent waits, as it
   * does on a line that sends again, and connections break after ten seconds of that.
   */
  sever(one: SimulatedProcess, other: SimulatedProcess): () => void {
    const line = lineOf(`peer:${one.name}`, `peer:${other.name}`);
    const waiting: (() => void)[] = [];
    if (this.#severed.has(line)) return () => undefined;
    this.#severed.set(line, waiting);
    const breaking = this.#scheduler.schedule(SILENCE_MILLIS, `silence on ${line}`, () => {
      waiting.length = 0;
      // Both sides notice by themselves: that needs no message.
      this.#severed.delete(line);
      this.#network.cut(`peer:${one.name}`);
      this.#severed.set(line, waiting);
    });
    this.#scheduler.note(`${line} is cut`);
    return () => {
      this.#scheduler.cancel(breaking);
      if (this.#severed.get(line) !== waiting) return;
      this.#severed.delete(line);
      this.#scheduler.note(`${line} is mended`);
      for (const carry of waiting) carry();
    };
  }

  #carry(from: string, to: string, run: () => void): void {
    const waiting = this.#severed.get(lineOf(from, to));
    if (waiting !== undefined) waiting.push(() => this.#carryNow(from, to, run));
    else this.#carryNow(from, to, run);
  }

  #carryNow(from: string, to: string, run: () => void): void {
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

/** The line between two addresses, whichever end is asked. */
function lineOf(one: string, other: string): string {
  return one < other ? `${one} - ${other}` : `${other} - ${one}`;
}
