import type { EngineSettings } from '../../protocol/settings.ts';
import type { WriterOptions } from '../store.ts';

/** Of the environment: the token that all members share, so that who does not lead forwards to who does. */
export const PEER_TOKEN = 'ASTERLOG_PEER_TOKEN';

/** One process of several that share streams; travels as JSON in its arguments. */
export interface MemberConfig {
  /** The same data for all; `star` is the member's own. */
  readonly store: WriterOptions;
  /** Settings for which the command line has no option. */
  readonly settings?: EngineSettings;
  /** Part of every id; no two processes of one run of the demo have the same. */
  readonly run: number;
  readonly streams: readonly string[];
  /** Producer `p` appends to stream `p` modulo the number of streams, one batch at a time. */
  readonly producers: number;
  readonly batchRecords: number;
  /** Texts to append; none: the text that comes with the package. */
  readonly files: readonly string[];
  /** A producer gives up a batch, and counts as failed, after this long. */
  readonly retryMillis: number;
  /** Each stream's tail is asked for this often. */
  readonly checkTailMillis: number;
}
