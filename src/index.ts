/** The public door of the package: everything users import comes through here. */
export {
  createEngine,
  explainAsOperator,
  fenceAsOperator,
  openReader,
  releaseAsOperator,
} from './engine/create.ts';
export type { CreateEngineOptions, OperatorOptions } from './engine/create.ts';
export type {
  ExplainedCell,
  ExplainedSlot,
  FenceReport,
  ReleaseReport,
  ReleaseRequest,
} from './engine/operator.ts';
export { directoryComponents, memoryComponents, s3Components } from './engine/components.ts';
export type { Components, DirectoryComponents, MemoryComponents } from './engine/components.ts';
export type { S3Components } from './engine/s3-components.ts';
export type * from './engine/api.ts';
export type { ListenOptions } from './engine/forwarding/listen-options.ts';
export { AssertionError } from './lib/assert.ts';
export { EngineError, ERROR_CODES } from './lib/errors.ts';
export type { ErrorCode, ErrorDetails, ErrorKind, SideEffects } from './lib/errors.ts';
export type { HistogramSummary, MetricsSnapshot } from './lib/metrics.ts';
export type { Log } from './ports/log.ts';
export { LIMITS } from './protocol/limits.ts';
export { DEFAULT_SETTINGS } from './protocol/settings.ts';
export type { EngineSettings } from './protocol/settings.ts';
export type { StreamConfig } from './protocol/records.ts';
