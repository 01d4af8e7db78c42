/**
 * The open gate: what the last-writer record says about a stream before this star may lead it.
 * Pure; the order of reads and writes is in machines/stream.machine.ts. Source: DESIGN "Tenure and
 * the open gate (T)".
 */
import type { RefRow, Tenure, WriterRecord } from './records.ts';

export type GateVerdict =
  /** No tenure ever: the stream is empty. */
  | { readonly kind: 'fresh' }
  /** A Finish ended the last tenure; its mark must agree. */
  | { readonly kind: 'released'; readonly tenure: Tenure; readonly tail: number }
  /** The own live incarnation leads already in its current epoch: join by a CAS of the same tenure. */
  | { readonly kind: 'join' }
  /** Somebody's tenure: is its epoch still the live head of a registered incarnation? */
  | { readonly kind: 'examine'; readonly tenure: Tenure }
  /** The stream is deleted for good; a name that led here is stale (T5). */
  | { readonly kind: 'deleted' };

export function judgeGate(writer: WriterRecord | undefined, own: Tenure): GateVerdict {
  if (writer === undefined) return { kind: 'fresh' };
  switch (writer.kind) {
    case 'deleted':
      return { kind: 'deleted' };
    case 'released':
      return { kind: 'released', tenure: writer.tenure, tail: writer.tail };
    case 'tenure':
      return sameTenure(writer.tenure, own)
        ? { kind: 'join' }
        : { kind: 'examine', tenure: writer.tenure };
  }
}

export interface PredecessorFacts {
  readonly tenure: Tenure;
  /** Head of the tenure's class on its star's chain. */
  readonly head: number | undefined;
  /** Whether the tenure's incarnation is registered. Only ever a reason to wait (T3). */
  readonly registered: boolean;
  readonly ownIncarnation: string;
}

/** `settle`: fence the epoch and settle it for this stream; `held`: a live star leads, come back later. */
export function judgePredecessor(facts: PredecessorFacts): 'settle' | 'held' {
  const { tenure, head, registered, ownIncarnation } = facts;
  // An own earlier epoch was superseded by the own roll, whatever the registry says.
  if (tenure.incarnation === ownIncarnation) return 'settle';
  if (head === undefined || tenure.epoch < head) return 'settle';
  return registered ? 'held' : 'settle';
}

/**
 * Whether a released record and the tail row certify each other; tail 0 needs no row. T4: who built
 * the row is never asked, that lags a change of writer by one absorb.
 */
export function isCleanRelease(
  released: { readonly tenure: Tenure; readonly tail: number },
  last: RefRow | undefined,
): boolean {
  if (last === undefined) return released.tail === 0;
  if (last.end !== released.tail) return false;
  // A leader that appended nothing releases the tail it found, under the mark of its own tenure.
  return (
    last.mark !== undefined &&
    last.mark.tail === released.tail &&
    sameTenure(last.mark.tenure, released.tenure)
  );
}

export function sameTenure(a: Tenure, b: Tenure): boolean {
  return (
    a.star === b.star &&
    a.incarnation === b.incarnation &&
    a.class === b.class &&
    a.epoch === b.epoch
  );
}
