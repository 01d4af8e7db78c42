/**
 * Streams that leave a star while it goes on: a handoff to another star, a drain of all. Both go
 * through Finish, and until the next leader came this star does not take the streams again.
 * Source: DESIGN "Finish (N)".
 */
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { waitFor, type WaitOptions } from '../src/lib/wait.ts';
import { starKey, writerKey } from '../src/protocol/keys.ts';
import { parseRecordValue, writerRecord } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import { LimboRegister } from './limbo-register.ts';
import type { StarPorts } from './ports.ts';
import { finishStreams, type DrainProgress } from './star-drain.ts';
import {
  closedError,
  drainingError,
  handedOffError,
  limboError,
  notLeadingError,
} from './star-errors.ts';
import { movedError } from './stream-errors.ts';
import type { StreamActor } from './stream.actor.ts';

export interface DeparturesHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly streams: ReadonlyMap<string, StreamActor>;
}

interface HandedOff {
  readonly star: string;
  readonly stream: string;
  readonly incarnation: string;
  /** Monotonic time: past it nobody came, and whoever asks may have the stream here again. */
  readonly until: number;
}

/** A stream is kept for the star it was handed to for so long; that star comes by itself. */
const HANDOFF_MILLIS = 10_000;

export class StarDepartures {
  readonly #host: DeparturesHost;
  readonly #limbo: LimboRegister;
  readonly #handedOff = new Map<string, HandedOff>();
  readonly #signal: AbortSignal;
  #isDraining = false;

  /** @param signal - fires when the star ends. */
  constructor(host: DeparturesHost, signal: AbortSignal) {
    this.#host = host;
    this.#signal = signal;
    this.#limbo = new LimboRegister(host.ports, signal);
  }

  /** @throws EngineError ENGINE_DRAINING */
  throwIfDraining(): void {
    if (this.#isDraining) throw drainingError(this.#host.settings.star);
  }

  isHandedOff(name: string): boolean {
    return this.#handedOff.has(name);
  }

  /**
   * Before a stream that was handed to another star is opened here again.
   *
   * @throws EngineError STREAM_HELD while the star it was handed to may still come.
   */
  async admitOpen(name: string, signal: AbortSignal | undefined): Promise<void> {
    const handed = this.#handedOff.get(name);
    if (handed === undefined) return;
    const { clock, metastore } = this.#host.ports;
    if (clock.monotonic() < handed.until) {
      const key = writerKey(handed.stream);
      const entry = await metastore.get(key, { signal });
      const writer = entry && parseRecordValue(writerRecord, key, entry.value);
      // Still as this star left it; the read may be old, but so is only a refusal that passes.
      if (writer?.kind === 'released' && writer.tenure.incarnation === handed.incarnation) {
        throw handedOffError(name, handed.star);
      }
    }
    this.#handedOff.delete(name);
  }

  /**
   * Finishes the stream for another star: when this resolves, that star opens it at once.
   *
   * @returns the tail at which the stream was released.
   * @throws EngineError NOT_LEADING, STAR_UNKNOWN (nothing was done); STREAM_IN_LIMBO, ABORTED,
   *   DEADLINE_EXCEEDED (the Finish goes on); FENCED (somebody else leads by now).
   */
  async handoff(
    name: string,
    star: string,
    options: WaitOptions,
  ): Promise<{ readonly tail: number }> {
    const { ports, settings } = this.#host;
    if (star === settings.star) {
      throw new EngineError('INVALID_OPTION', 'a stream is handed to another star', {
        details: { option: 'star', value: star },
      });
    }
    // A name that nobody ever ran under would leave the stream to itself.
    const lease = ports.metastore.get(starKey(star), { signal: options.signal });
    const known = await waitFor(ports.clock, lease, options, 'handoff');
    if (known === undefined) {
      throw new EngineError('STAR_UNKNOWN', 'no star of this name was ever registered', {
        details: { star },
      });
    }
    const actor = this.#host.streams.get(name);
    if (actor === undefined || !(actor.isLeading || actor.isFinishing)) {
      throw notLeadingError(name, settings.star);
    }
    this.#handedOff.set(name, {
      star,
      stream: actor.streamId,
      incarnation: actor.tenure.incarnation,
      until: ports.clock.monotonic() + HANDOFF_MILLIS,
    });
    actor.finish('released', handedOffError(name, star));
    if ((await actor.departed(options)) === 'limbo') throw limboError(name);
    if (actor.left === 'released') return { tail: actor.tail.end };
    this.#handedOff.delete(name);
    throw movedError(name);
  }

  /**
   * Finishes every stream, the busiest first, and takes none any more; the star stays registered.
   *
   * @throws EngineError ABORTED, DEADLINE_EXCEEDED (the rest goes on); CLOSED
   */
  async drain(
    options: WaitOptions & {
      readonly onProgress?: ((progress: DrainProgress) => void) | undefined;
    },
  ): Promise<DrainProgress> {
    const { ports, settings, streams } = this.#host;
    this.#isDraining = true;
    let progress: DrainProgress = { streams: streams.size, finished: 0, inLimbo: 0 };
    let isWaiting = true;
    // Under the star's own signal: it goes on when the caller has given up.
    const finished = finishStreams(streams, this.#signal, {
      refusal: () => drainingError(settings.star),
      onProgress: (next) => {
        progress = next;
        if (isWaiting) options.onProgress?.(next);
      },
    });
    finished.catch(() => undefined);
    try {
      const { signal, timeoutMillis } = options;
      const done = await waitFor(ports.clock, finished, { signal, timeoutMillis }, 'drain');
      if (this.#signal.aborted) throw closedError(settings.star);
      return done;
    } catch (cause) {
      const { code } = toEngineError(cause);
      if (code !== 'DEADLINE_EXCEEDED' && code !== 'ABORTED') throw cause;
      throw new EngineError(code, 'the drain did not end in time: it goes on', {
        sideEffects: 'possible',
        details: { ...progress },
      });
    } finally {
      isWaiting = false;
    }
  }

  /** A Finish of the stream failed; it is tried again. */
  noteLimbo(actor: StreamActor): void {
    const { departure } = actor;
    if (departure === undefined) return;
    const { star, incarnation, epoch } = actor.tenure;
    const { stream, name, basin } = actor.record;
    const { sinceMillis, code = 'INTERNAL', message = '' } = departure;
    this.#limbo.note({ star, incarnation, epoch, stream, name, basin, sinceMillis, code, message });
  }

  /** Notes of earlier incarnations of this star say nothing any more. */
  sweepNotes(incarnation: string): void {
    this.#limbo.sweep(this.#host.settings.star, incarnation);
  }

  /** The stream is out of limbo, in whichever way. */
  clearLimbo(actor: StreamActor): void {
    this.#limbo.clear({ star: this.#host.settings.star, stream: actor.streamId });
  }
}
