import type { EngineSettings } from '../../protocol/settings.ts';
import type { WriterOptions } from '../store.ts';

/** Everything a writer process must know; travels as JSON in its arguments. */
export interface WriterConfig {
  readonly store: WriterOptions;
  /** Settings for which the command line has no option. */
  readonly settings?: EngineSettings;
  /** Part of every id; a later writer of the same data needs another one. */
  readonly run: number;
  readonly streams: readonly string[];
  /** Producer `p` appends to stream `p` modulo the number of streams. */
  readonly producers: number;
  readonly batchRecords: number;
  /** Batches of one producer that may await their acknowledgement. */
  readonly inFlight: number;
  /** Texts to append; none: the text that comes with the package. */
  readonly files: readonly string[];
}

/** The pipe of reports, after the three standard streams. */
export const REPORT_FD = 3;
