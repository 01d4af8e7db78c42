/** Writes down what clients of one stream call and are told, in the order in which it happens. */
import { isStart, type Call, type HistoryEvent, type Result } from './events.ts';

export class Recorder {
  readonly events: HistoryEvent[] = [];
  readonly #onEvent: (event: HistoryEvent) => void;
  #clients: number;
  #operations: number;

  /** @param first - ids from here on, where several recorders write one history. */
  constructor(onEvent: (event: HistoryEvent) => void = () => undefined, first = 0) {
    this.#onEvent = onEvent;
    this.#clients = first;
    this.#operations = first;
  }

  newClient(): number {
    return this.#clients++;
  }

  start(clientId: number, call: Call): number {
    const opId = this.#operations++;
    this.#add({ call, clientId, opId });
    return opId;
  }

  /**
   * An unknown outcome has no end: it is written down at the end of the history (`closed`), and its
   * client goes on as another one.
   *
   * @returns the id under which the client goes on.
   */
  finish(clientId: number, opId: number, result: Result): number {
    if (result.kind === 'appendIndefiniteFailure') return this.newClient();
    this.#add({ result, clientId, opId });
    return clientId;
  }

  #add(event: HistoryEvent): void {
    this.events.push(event);
    this.#onEvent(event);
  }
}

/** The history with an end for every call: those left open may have taken effect, or still will. */
export function closed(events: readonly HistoryEvent[]): HistoryEvent[] {
  const ended = new Set(events.flatMap((event) => (isStart(event) ? [] : [event.opId])));
  const ends = events.flatMap((event): HistoryEvent[] => {
    if (!isStart(event) || ended.has(event.opId)) return [];
    const { call, clientId, opId } = event;
    return [{ result: OPEN_ENDS[call.kind], clientId, opId }];
  });
  return [...events, ...ends];
}

const OPEN_ENDS: Record<Call['kind'], Result> = {
  append: { kind: 'appendIndefiniteFailure' },
  read: { kind: 'readFailure' },
  checkTail: { kind: 'checkTailFailure' },
};
