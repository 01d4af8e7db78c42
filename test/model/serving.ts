/**
 * Tail reads of one stream at its leader A, while A rolls, loses its lease, finishes, and C takes the
 * stream over: poison lands bucket by bucket, a wave looks bucket by bucket, and reads each identity
 * after its look. What confirms a request is decided by the product's own function (L1), what C may
 * do by the product's gate and classification.
 */
import {
  isConfirmed,
  voteOf,
  type ConfirmationEvidence,
  type ConfirmationVote,
} from '../../src/protocol/confirmation.ts';
import { judgeGate, judgePredecessor } from '../../src/protocol/gate.ts';
import type { Tenure, WriterRecord } from '../../src/protocol/records.ts';
import { classify, EMPTY, POISON } from '../../src/protocol/slot.ts';
import { ATTEMPT } from '../support/row-samples.ts';
import { BrokenRule, type Space } from './states.ts';

export interface ServingBounds {
  /** Flights that A acknowledges at most. */
  readonly flights: number;
  /** True: a confirmation that began before the request counts. */
  readonly olderCounts?: boolean;
  /** True: A confirms in its newest epoch instead of the one that `writer` names. */
  readonly inHead?: boolean;
  /** True: A goes on serving after it sent a released CAS (L2). */
  readonly servesOn?: boolean;
  /** True: the live lease is taken for a confirmation (T3). */
  readonly byLease?: boolean;
  /** True: a bucket that does not say that the slot is empty counts as clean. */
  readonly silentIsClean?: boolean;
  /** True: whatever stands in the slot counts as clean too. */
  readonly foundIsClean?: boolean;
  /** True: a flight that was assigned before the request and sent again counts. */
  readonly resentCounts?: boolean;
}

const QUORUM = { buckets: 3, copies: 2 };
const ALL = 2 ** QUORUM.buckets - 1;

interface Request {
  /** C had acknowledged when it arrived. */
  readonly isLate: boolean;
  /** Slot that A would have assigned next. */
  readonly firstSlot: number;
  readonly isConfirmed: boolean;
}

interface Wave {
  readonly epoch: number;
  readonly slot: number;
  /** Whether the request had arrived when it began. */
  readonly asked: boolean;
  readonly looked: number;
  readonly clean: number;
  /** Poison was met: A halts. */
  readonly lost: boolean;
}

interface State {
  /** A's newest epoch, and the one that `writer` names as A knows it. */
  readonly own: number;
  readonly named: number;
  readonly isAlive: boolean;
  readonly isRegistered: boolean;
  /** A's newest epoch when a second process with its star's name minted one above it; 0: none did. */
  readonly rival: number;
  readonly phase: 'lead' | 'finishing' | 'gone';
  readonly seenVersion: number;
  /** Poison in the first free slot of epochs 1 and 2: a bit mask of buckets. */
  readonly poison: readonly [number, number];
  /** Slots of the named epoch: assigned, with W copies, and acknowledged. */
  readonly next: number;
  readonly landed: number;
  readonly released: number;
  readonly wave: Wave | null;
  readonly held: boolean;
  readonly request: Request | null;
  readonly writer: 'A' | 'none' | 'C';
  readonly writerEpoch: number;
  readonly version: number;
  readonly taker: 'idle' | 'judge' | 'fence' | 'cas' | 'lead';
  readonly takerVersion: number;
  readonly takerEpoch: number;
  readonly cAcked: boolean;
  readonly isWrong: boolean;
}

export class ServingSpace implements Space<State> {
  readonly #bounds: ServingBounds;

  constructor(bounds: ServingBounds) {
    this.#bounds = bounds;
  }

  initial(): State {
    return {
      own: 1,
      named: 1,
      isAlive: true,
      isRegistered: true,
      rival: 0,
      phase: 'lead',
      seenVersion: 0,
      poison: [0, 0],
      next: 0,
      landed: 0,
      released: 0,
      wave: null,
      held: false,
      request: null,
      writer: 'A',
      writerEpoch: 1,
      version: 0,
      taker: 'idle',
      takerVersion: -1,
      takerEpoch: 0,
      cAcked: false,
      isWrong: false,
    };
  }

  key(state: State): string {
    const { seenVersion, takerVersion, version, ...rest } = state;
    return JSON.stringify([
      ...Object.values(rest),
      seenVersion === version,
      takerVersion === version,
    ]);
  }

  check({ isWrong }: State): void {
    if (!isWrong) return;
    throw new BrokenRule('L1 A answered a request that arrived after C had acknowledged');
  }

  successors(state: State, emit: (label: string, next: State) => void): void {
    const to = (label: string, change: Partial<State>): void =>
      emit(label, { ...state, ...change });
    if (state.phase !== 'gone') {
      this.#lease(state, to);
      this.#lead(state, to);
      this.#serve(state, to);
    }
    if (state.request === null && state.phase !== 'gone') {
      const request = { isLate: state.cAcked, firstSlot: state.next, isConfirmed: false };
      // A wave that is under way began before it.
      const wave = state.wave === null ? null : { ...state.wave, asked: false };
      to('request arrives', { request, wave });
    }
    this.#take(state, to);
  }

  /**
   * The registry may end the lease whatever A does, and A may learn of it late or never, and come
   * back; or a second process takes the star's name.
   */
  #lease(state: State, to: (label: string, change: Partial<State>) => void): void {
    if (state.isRegistered) to('expires lease', { isRegistered: false });
    if (this.#bounds.byLease === true && state.isAlive && !state.isRegistered)
      to('learns loss', { isAlive: false });
    if (!state.isRegistered && state.rival === 0) {
      to('registers again', { isRegistered: true, isAlive: true });
    }
    if (state.rival === 0) to('second process mints', { rival: state.own, isRegistered: false });
  }

  /** A appends, rolls, and enters its new epoch by a CAS once the old one is cut; or finishes. */
  #lead(state: State, to: (label: string, change: Partial<State>) => void): void {
    const { phase, own, named, poison, next, landed, released, version, seenVersion } = state;
    const isDead = dead(poisonOf(poison, named));
    if (phase === 'lead' && next === released && next < this.#bounds.flights) {
      to('assigns flight', { next: next + 1 });
    }
    // W copies cannot come together in a slot that is dead; what was there first is not poisoned.
    if (next > landed && !isDead) {
      to('lands flight', { landed: next, poison: withPoison(poison, named, 0) });
    }
    // A hears of its copies later; a flight that was sent again may have landed long before.
    if (landed > released) {
      const evidence = { kind: 'released', released: landed } as const;
      to('acknowledges flight', { released: landed, ...this.#settle(state, evidence) });
    }
    if (phase !== 'lead') {
      if (phase === 'finishing' && seenVersion === version) {
        to('lands released', { writer: 'none', version: version + 1 });
      }
      if (phase === 'finishing' && seenVersion !== version) to('hears', { phase: 'gone' });
      return;
    }
    if (own === 1) to('mints', { own: 2 });
    if (own !== named) {
      // The own fence ends the old epoch, then T1.
      if (!isDead) to('fences own', { poison: withPoison(poison, named, ALL) });
      else if (seenVersion !== version) to('loses stream', { phase: 'gone' });
      else {
        to('enters', {
          named: own,
          writerEpoch: own,
          version: version + 1,
          seenVersion: version + 1,
          next: 0,
          landed: 0,
          released: 0,
          wave: null,
        });
      }
    }
    if (next === released) to('sends released', { phase: 'finishing' });
  }

  #serve(state: State, to: (label: string, change: Partial<State>) => void): void {
    const { request, wave, next, released, held, isAlive, phase } = state;
    const serves = phase === 'lead' || this.#bounds.servesOn === true;
    if (!serves) return;
    if (request?.isConfirmed === true) {
      to('answers', { request: null, isWrong: request.isLate });
    }
    const isWanted = request?.isConfirmed === false || this.#bounds.olderCounts === true;
    if (wave === null && next === released && isWanted) {
      to('wave begins', {
        wave: {
          epoch: this.#bounds.inHead === true ? state.own : state.named,
          slot: next,
          asked: request !== null,
          looked: 0,
          clean: 0,
          lost: false,
        },
      });
    }
    if (wave !== null) this.#look(state, wave, to);
    if (request === null || request.isConfirmed) return;
    if (this.#bounds.olderCounts === true && held) {
      to('confirms late', { request: { ...request, isConfirmed: true } });
    }
    if (this.#bounds.byLease === true && isAlive) {
      to('confirms by lease', { request: { ...request, isConfirmed: true } });
    }
  }

  #look(state: State, wave: Wave, to: (label: string, change: Partial<State>) => void): void {
    if (wave.looked === ALL) {
      const evidence: ConfirmationEvidence = {
        kind: 'wave',
        begun: wave.asked ? 1 : 0,
        clean: wave.clean,
      };
      const isUsable = !wave.lost && wave.slot === state.next;
      to('wave ends', {
        wave: null,
        held: state.held || (isUsable && wave.clean >= QUORUM.copies),
        ...(isUsable ? this.#settle(state, evidence) : {}),
      });
      return;
    }
    const mask = wave.slot === state.next ? poisonOf(state.poison, wave.epoch) : 0;
    for (let bucket = 0; bucket < QUORUM.buckets; bucket++) {
      const bit = 1 << bucket;
      if ((wave.looked & bit) !== 0) continue;
      const found = (mask & bit) === 0 ? 'absent' : 'poison';
      for (const [told, identity] of [
        [found, 'confirmed'],
        ['unknown', 'unknown'],
      ] as const) {
        const vote = voteOf(told, identity);
        const counts = vote === 'clean' || this.#takesForClean(vote);
        to(`looks ${bucket} ${vote}`, {
          wave: {
            ...wave,
            looked: wave.looked | bit,
            clean: wave.clean + (counts ? 1 : 0),
            lost: wave.lost || (vote === 'lost' && !counts),
          },
        });
      }
    }
  }

  #takesForClean(vote: ConfirmationVote): boolean {
    if (vote === 'silent') return this.#bounds.silentIsClean === true;
    return vote === 'lost' && this.#bounds.foundIsClean === true;
  }

  #settle(state: State, evidence: ConfirmationEvidence): Partial<State> {
    const { request } = state;
    if (request === null) return {};
    const isResent = this.#bounds.resentCounts === true && evidence.kind === 'released';
    const { firstSlot } = request;
    const asked = { firstSlot: isResent ? firstSlot - 1 : firstSlot, arrived: 0 };
    if (!isConfirmed(asked, evidence, QUORUM.copies)) return {};
    return { request: { ...request, isConfirmed: true } };
  }

  /** C: reads the record, fences what is not released, claims it, acknowledges. */
  #take(state: State, to: (label: string, change: Partial<State>) => void): void {
    const { taker, version, takerVersion, takerEpoch, poison, isRegistered } = state;
    switch (taker) {
      case 'idle':
        to('C reads', { taker: 'judge', takerVersion: version });
        return;
      case 'judge': {
        if (takerVersion !== version) {
          to('C begins again', { taker: 'idle', takerVersion: -1 });
          return;
        }
        const verdict = judgeGate(recordOf(state), { ...tenureOf(9), star: 'c' });
        if (verdict.kind === 'released') to('C finds released', { taker: 'cas' });
        if (verdict.kind !== 'examine') return;
        const facts = { head: headOf(state), registered: isRegistered, ownIncarnation: 'c' };
        const judged = judgePredecessor({ tenure: verdict.tenure, ...facts });
        if (judged === 'held') to('C defers', { taker: 'idle', takerVersion: -1 });
        else to('C fences', { taker: 'fence', takerEpoch: verdict.tenure.epoch });
        return;
      }
      case 'fence': {
        const mask = poisonOf(poison, takerEpoch);
        if (dead(mask)) to('C publishes', { taker: 'cas' });
        else {
          const bucket = [0, 1, 2].find((each) => (mask & (1 << each)) === 0)!;
          to('C poisons', { poison: withPoison(poison, takerEpoch, mask | (1 << bucket)) });
        }
        return;
      }
      case 'cas':
        if (takerVersion !== version) to('C begins again', { taker: 'idle', takerVersion: -1 });
        else to('C claims', { taker: 'lead', writer: 'C', version: version + 1 });
        return;
      case 'lead':
        if (!state.cAcked) to('C acknowledges', { cAcked: true });
    }
  }
}

/** The star's newest epoch, where A's own are numbered by themselves. */
function headOf({ own, rival }: State): number {
  return rival === own ? own + 1 : own;
}

function tenureOf(epoch: number): Tenure {
  return { star: 'a', incarnation: 'a', class: 'express', epoch };
}

function recordOf({ writer, writerEpoch }: State): WriterRecord {
  const tenure = writer === 'C' ? { ...tenureOf(9), star: 'c' } : tenureOf(writerEpoch);
  return writer === 'none'
    ? { kind: 'released', tenure, tail: 0, attempt: ATTEMPT }
    : { kind: 'tenure', tenure, attempt: ATTEMPT };
}

function dead(mask: number): boolean {
  const cells = Uint8Array.from([0, 1, 2], (at) => ((mask & (1 << at)) === 0 ? EMPTY : POISON));
  return classify(QUORUM, cells).kind === 'dead';
}

const poisonOf = (poison: State['poison'], epoch: number): number => poison[epoch - 1]!;

function withPoison(
  [first, second]: State['poison'],
  epoch: number,
  mask: number,
): State['poison'] {
  return epoch === 1 ? [mask, second] : [first, mask];
}
