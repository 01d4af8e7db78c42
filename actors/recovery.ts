/**
 * Recovery at start: every earlier epoch of the own chain that is not settled and swept is fenced
 * and settled, oldest first (S4). Cost is bounded by the un-absorbed tails, not by the chain.
 * Source: DESIGN "Settle (S)".
 */
import { toEngineError, type EngineError, type ErrorCode } from '../src/lib/errors.ts';
import { epochsPrefix } from '../src/protocol/keys.ts';
import { epochRecord, parseRecordValue } from '../src/protocol/records.ts';
import type { FenceActors, FenceProgress } from './fence.actor.ts';
import type { StarPorts } from './ports.ts';
import type { SettlementActors } from './settlement.actor.ts';

export interface RecoveredFence {
  readonly epoch: number;
  readonly cut: number;
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  readonly repairs: number;
  readonly millis: number;
}

/** An epoch that stays as it is because what it acknowledged cannot be read any more. */
export interface DamagedEpoch {
  readonly epoch: number;
  readonly code: ErrorCode;
  /** Names the slot and the buckets. */
  readonly message: string;
}

export interface RecoveryResult {
  readonly fences: readonly RecoveredFence[];
  /** Streams that an epoch of these leads stay closed, and say why; all others are unaffected. */
  readonly damaged: readonly DamagedEpoch[];
  readonly settledEpochs: number;
  readonly settledStreams: number;
  readonly millis: number;
}

export interface RecoveryInput {
  readonly ports: StarPorts;
  readonly fences: FenceActors;
  readonly settlements: SettlementActors;
  readonly star: string;
  /** The epoch just minted: everything below it is over. */
  readonly below: number;
  readonly signal: AbortSignal;
  readonly onFenceProgress: ((progress: FenceProgress) => void) | undefined;
}

const PAGE = 500;

export async function recoverChain(input: RecoveryInput): Promise<RecoveryResult> {
  const { ports, fences, settlements, star, signal } = input;
  const started = ports.clock.monotonic();
  const done: RecoveredFence[] = [];
  let settledEpochs = 0;
  let settledStreams = 0;
  const damaged: DamagedEpoch[] = [];
  for await (const epoch of unsettledEpochs(input)) {
    try {
      const result = await fences.fence(
        { star, epoch },
        { signal, onProgress: input.onFenceProgress },
      );
      if (!result.alreadyFenced) {
        const { cut, rounds, gets, puts, repairs, millis } = result;
        done.push({ epoch, cut, rounds, gets, puts, repairs, millis });
      }
      const settled = await settlements.settle({ star, epoch }, { signal });
      if (settled.kind === 'settled') {
        settledEpochs++;
        settledStreams += settled.streams;
      } else {
        // A stream of it waits for another star's epoch; whoever opens that stream settles both.
        ports.log.warn({ star, epoch, ...settled }, 'an epoch stays unsettled behind a gap');
      }
    } catch (cause) {
      const { code, message } = refuseUnlessDamage(cause);
      damaged.push({ epoch, code, message });
      ports.metrics.counter('recovery.damagedEpochs').add();
      ports.log.error({ star, epoch, code, message }, 'an epoch is damaged and stays as it is');
    }
  }
  return {
    fences: done,
    damaged,
    settledEpochs,
    settledStreams,
    millis: ports.clock.monotonic() - started,
  };
}

/** Damage does not pass by waiting: the other epochs are not kept waiting for it. */
function refuseUnlessDamage(cause: unknown): EngineError {
  const error = toEngineError(cause);
  if (error.code === 'ACKNOWLEDGED_SLOT_POISONED' || error.code === 'DATA_LOSS') return error;
  throw error;
}

async function* unsettledEpochs(input: RecoveryInput): AsyncGenerator<number> {
  const { ports, star, below, signal } = input;
  let startAfter: string | undefined;
  for (;;) {
    const entries = await ports.metastore.children(epochsPrefix(star), {
      signal,
      limit: PAGE,
      ...(startAfter === undefined ? {} : { startAfter }),
    });
    for (const entry of entries) {
      const record = parseRecordValue(epochRecord, entry.key, entry.value);
      if (record.epoch >= below) return;
      const isDone = record.state === 'retired' || (record.state === 'settled' && record.tailSwept);
      if (!isDone) yield record.epoch;
    }
    if (entries.length < PAGE) return;
    startAfter = entries.at(-1)!.key;
  }
}
