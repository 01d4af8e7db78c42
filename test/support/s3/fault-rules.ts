/** What may go wrong between a request and its answer, as rules that a test gives to the server. */
import { deferred } from '../../../src/lib/wait.ts';

export interface SeenRequest {
  readonly method: string;
  readonly bucket: string;
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Of the connection that it came on. */
  readonly connection: number;
}

export interface ScriptedAnswer {
  readonly status: number;
  /** An S3 error of this code. */
  readonly code?: string;
  readonly more?: string;
  /** Instead of an S3 error. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Fault =
  | { readonly kind: 'delay'; readonly millis: number }
  /** The connection ends before anything is done. */
  | { readonly kind: 'drop' }
  /** It is done, and the connection ends instead of an answer. */
  | { readonly kind: 'commit-then-reset' }
  /** It is done, and there is no answer. */
  | { readonly kind: 'commit-then-stall' }
  /** Nothing is done and nothing answered; the connection stays. */
  | { readonly kind: 'stall' }
  /** Waits for `release`; done then even if the client has gone. */
  | { readonly kind: 'hold'; readonly until: Promise<void> }
  /** The body is not read before `until`, and noted if only a part of it comes then. */
  | { readonly kind: 'unread'; readonly until: Promise<void> }
  /** Another fault, which takes effect only after `until`. */
  | { readonly kind: 'late'; readonly until: Promise<void>; readonly then: Fault }
  /** It is done once more, later. */
  | { readonly kind: 'duplicate'; readonly afterMillis: number }
  /** `answer` instead, after it was done or without. */
  | ({ readonly kind: 'answer'; readonly commit?: boolean } & ScriptedAnswer)
  /** Half of the answer's body, then the end of the connection. */
  | { readonly kind: 'truncate' }
  /** Half of the answer's body, and then nothing. */
  | { readonly kind: 'trickle' }
  /** One byte of what is sent is another. */
  | { readonly kind: 'corrupt' }
  /** An answer before the body of the request was read. */
  | ({ readonly kind: 'answer-early' } & ScriptedAnswer);

export interface FaultRule {
  readonly when?: (request: SeenRequest) => boolean;
  /** How often; always by default. */
  readonly times?: number;
  readonly fault: Fault;
}

export class FaultRules {
  #rules: { readonly rule: FaultRule; left: number }[] = [];

  add(rule: FaultRule): void {
    this.#rules.push({ rule, left: rule.times ?? Infinity });
  }

  clear(): void {
    this.#rules = [];
  }

  /** The first rule that is about the request, once. */
  take(request: SeenRequest): Fault | undefined {
    for (const entry of this.#rules) {
      if (entry.left <= 0 || entry.rule.when?.(request) === false) continue;
      entry.left--;
      return entry.rule.fault;
    }
    return undefined;
  }

  /** Holds the next request that `when` is about. */
  hold(when: (request: SeenRequest) => boolean): { arrived: Promise<void>; release: () => void } {
    const arrived = deferred<void>();
    const released = deferred<void>();
    const noted = (request: SeenRequest): boolean => {
      if (!when(request)) return false;
      arrived.resolve();
      return true;
    };
    this.add({ when: noted, times: 1, fault: { kind: 'hold', until: released.promise } });
    return { arrived: arrived.promise, release: released.resolve };
  }
}
