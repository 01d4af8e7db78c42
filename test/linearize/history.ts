/** The history of one stream: operations with the order of their beginnings and ends. */
import { isStart, type AppendCall, type HistoryEvent, type Result } from './events.ts';
import { HistoryError } from './parse-events.ts';

export const NEVER = Number.POSITIVE_INFINITY;

interface Times {
  readonly opId: number;
  readonly clientId: number;
  /** Place of its start among the events. */
  readonly call: number;
  /** Place of its end; `NEVER` when the outcome is unknown: it may take effect at any later time. */
  readonly end: number;
}

/** An append that succeeded, or that may have. */
export interface Append extends Times {
  readonly kind: 'append';
  readonly append: AppendCall;
  /** Undefined when the outcome is unknown. */
  readonly tail: number | undefined;
}

/** A read of the whole stream, or a check of its tail. */
export interface Look extends Times {
  readonly kind: 'look';
  readonly tail: number;
  /** Undefined for a check of the tail. */
  readonly streamHash: bigint | undefined;
}

export type Operation = Append | Look;

/**
 * The operations that say something about the stream, by their beginnings. Failed reads say nothing,
 * and neither does an append that definitely failed: as in the public tool's model it may stand
 * anywhere and changes nothing, whatever its conditions were.
 *
 * @throws HistoryError when ends and beginnings do not belong together.
 */
export function operationsOf(events: readonly HistoryEvent[]): Operation[] {
  const ends = new Map<number, { readonly at: number; readonly result: Result }>();
  const begun = new Map<number, { readonly clientId: number; readonly kind: string }>();
  /** Clients with an operation under way, or whose last one may still take effect. */
  const busy = new Map<number, number>();
  for (const [at, event] of events.entries()) {
    const { opId, clientId } = event;
    if (isStart(event)) {
      if (begun.has(opId)) throw new HistoryError(`operation ${opId} starts twice`);
      if (busy.has(clientId)) {
        throw new HistoryError(
          `client ${clientId} starts ${opId} before ${busy.get(clientId)} ended`,
        );
      }
      if (event.call.kind === 'append' && event.call.recordHashes.length === 0) {
        throw new HistoryError(`operation ${opId} appends nothing`);
      }
      begun.set(opId, { clientId, kind: event.call.kind });
      busy.set(clientId, opId);
      continue;
    }
    const start = begun.get(opId);
    const fits = start?.clientId === clientId && event.result.kind.startsWith(start.kind);
    if (!fits) throw new HistoryError(`operation ${opId} ends as it did not start`);
    if (ends.has(opId)) throw new HistoryError(`operation ${opId} ends twice`);
    ends.set(opId, { at, result: event.result });
    if (event.result.kind !== 'appendIndefiniteFailure') busy.delete(clientId);
  }
  return events.flatMap((event, at) =>
    isStart(event) ? (operationOf(event, at, ends.get(event.opId)) ?? []) : [],
  );
}

function operationOf(
  { call, clientId, opId }: Extract<HistoryEvent, { readonly call: unknown }>,
  at: number,
  end: { readonly at: number; readonly result: Result } | undefined,
): Operation | undefined {
  const times = { opId, clientId, call: at, end: end?.at ?? NEVER };
  const result = end?.result;
  switch (result?.kind) {
    case 'appendSuccess':
      return call.kind === 'append'
        ? { ...times, kind: 'append', append: call, tail: result.tail }
        : undefined;
    case 'readSuccess':
      return { ...times, kind: 'look', tail: result.tail, streamHash: result.streamHash };
    case 'checkTailSuccess':
      return { ...times, kind: 'look', tail: result.tail, streamHash: undefined };
    case 'appendIndefiniteFailure':
    case undefined:
      return call.kind === 'append'
        ? { ...times, end: NEVER, kind: 'append', append: call, tail: undefined }
        : undefined;
    default:
      return undefined;
  }
}

/** Is the append there for certain? */
export function isRequired({ end }: Operation): boolean {
  return end !== NEVER;
}
