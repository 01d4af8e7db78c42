/** Fault layers, scheduler and virtual clock for tests of code built on asterlog. */
export * from './bucket-fates.ts';
export * from './bucket-server.ts';
export { FaultScript, Gate, type ActiveRule, type FaultRule } from './fault-script.ts';
export * from './faulty-bucket-store.ts';
export * from './faulty-metastore.ts';
export * from './history.ts';
export type * from './latency.ts';
export * from './meta-fates.ts';
export * from './meta-journal.ts';
export * from './meta-server.ts';
export * from './scheduler.ts';
export * from './simulated-peers.ts';
export * from './simulated-process.ts';
export * from './simulation-failure.ts';
export * from './virtual-clock.ts';
export * from './world.ts';
