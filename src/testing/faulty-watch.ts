import type { Prng } from '../lib/prng.ts';
import type { MetaWatch, MetaWatchEvent } from '../ports/metastore.ts';
import { drawLatency } from './latency.ts';
import type { MetaFaultProfile } from './meta-fates.ts';
import type { MetaServer } from './meta-server.ts';
import type { EventOwner, Scheduler } from './scheduler.ts';

interface FaultyWatchContext {
  readonly scheduler: Scheduler;
  readonly owner: EventOwner | undefined;
  readonly process: string;
  readonly prng: Prng;
  readonly profile: () => MetaFaultProfile;
  readonly closed: () => void;
}

/** Between two events of one watch, so that their order is not drawn. */
const GAP_MILLIS = 0.001;

/** A watch whose events come late and in order, and some not at all: then a resync follows. */
export class FaultyWatch implements MetaWatch {
  readonly #listener: (event: MetaWatchEvent) => void;
  readonly #context: FaultyWatchContext;
  readonly #server: MetaServer;
  readonly #inner: MetaWatch;
  readonly #stopRejoin: () => void;
  #isOpen = true;
  #nextAt = 0;

  constructor(
    server: MetaServer,
    prefix: string,
    listener: (event: MetaWatchEvent) => void,
    context: FaultyWatchContext,
  ) {
    this.#server = server;
    this.#listener = listener;
    this.#context = context;
    this.#stopRejoin = server.onRejoin((process) => {
      if (process === context.process) this.#deliver({ kind: 'resync' });
    });
    this.#inner = server.inner.watch(prefix, (event) => {
      this.#receive(event);
    });
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#stopRejoin();
    this.#inner.close();
    this.#context.closed();
  }

  #receive(event: MetaWatchEvent): void {
    const { process, prng } = this.#context;
    const profile = this.#context.profile();
    // What an old leader does not know is made up for by the resync after it.
    if (this.#server.isolatedSince(process) !== undefined && event.kind !== 'ready') return;
    const isChange = event.kind === 'put' || event.kind === 'deleted';
    if (!isChange || !prng.chance(profile.watchLosses)) {
      this.#deliver(event);
      return;
    }
    for (const observer of this.#server.observers) observer.metaWatchLost?.(process);
    this.#deliver({ kind: 'resync' }, profile.resyncMillis * prng.fraction());
  }

  #deliver(event: MetaWatchEvent, extraMillis = 0): void {
    const { scheduler, owner, prng } = this.#context;
    const latency = drawLatency(prng, this.#context.profile().watch) + extraMillis;
    const at = Math.max(scheduler.time + latency, this.#nextAt);
    this.#nextAt = at + GAP_MILLIS;
    scheduler.schedule(
      at - scheduler.time,
      'watch',
      () => {
        if (this.#isOpen) this.#listener(event);
      },
      owner,
    );
  }
}
