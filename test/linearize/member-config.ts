/** What a process with an engine and clients is told, and what it tells. */
import type { WriterOptions } from '../../src/cli/store.ts';
import type { Workflow } from './workflow.ts';

export interface MemberConfig {
  readonly store: WriterOptions;
  /** Part of every name and id; no two processes of one run have the same. */
  readonly run: number;
  /** Of each stream; a stream is named after its workflow. */
  readonly clients: number;
  readonly streams: readonly Workflow[];
  readonly thinkMillis: number;
}

/** Lines of JSON on the pipe of reports. */
export type MemberReport =
  | { readonly kind: 'open' }
  /** An event, with the host's monotonic clock in nanoseconds, which all of its processes share. */
  | { readonly kind: 'event'; readonly at: string; readonly stream: string; readonly line: string }
  | { readonly kind: 'closed' }
  | { readonly kind: 'failed'; readonly message: string };

export const PEER_TOKEN = 'a token that all members of a run share';
export const IDS_PER_RUN = 1_000_000;
