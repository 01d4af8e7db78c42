export type { Clock, TimerHandle } from '../lib/clock.ts';
export type { Random } from '../lib/random.ts';
export * from './bucket-store.ts';
export * from './metastore.ts';
export type * from './compute.ts';
export type * from './processes.ts';
export type * from './peers.ts';
export * from './log.ts';
