/** Both directions between this engine and the others: what it forwards, and what it serves. */
import { EngineError } from '../../lib/errors.ts';
import type { Peers } from '../../ports/peers.ts';
import type { StarActor } from '../../../actors/star.actor.ts';
import { Forwarder } from './forwarder.ts';
import type { PeerService } from './peer-service.ts';

export class PeerLinks {
  readonly forwarder: Forwarder;
  readonly #star: StarActor;
  readonly #peers: Peers;
  readonly #service: PeerService;

  constructor(star: StarActor, peers: Peers, service: PeerService) {
    this.#star = star;
    this.#peers = peers;
    this.#service = service;
    this.forwarder = new Forwarder(peers, star);
  }

  /** After the star has closed: answers that are on their way still go out. */
  async close(): Promise<void> {
    this.forwarder.abandonAll(this.#closedError());
    await this.#service.close(this.#closedError());
    await this.#peers.close();
  }

  async kill(): Promise<void> {
    this.#service.kill();
    this.forwarder.abandonAll(this.#closedError());
    await this.#peers.close();
  }

  #closedError(): EngineError {
    const { star } = this.#star.settings;
    return new EngineError('CLOSED', 'the engine was closed', { details: { star } });
  }
}
