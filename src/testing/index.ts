/**
 * Fault-injecting buckets and metastore, processes and virtual time, for tests of code that is built
 * on asterlog. Begin with `simulate`; the parts beneath it are for worlds of one's own.
 * Guide: docs/testing.md.
 */
export { simulate } from './simulate.ts';
export type { SimulatedEngine, Simulation, SimulationOptions } from './simulate.ts';

export { FaultScript, Gate } from './fault-script.ts';
export type { ActiveRule, FaultRule, MatchedCall } from './fault-script.ts';
export { CALM_BUCKETS, ROUGH_BUCKETS } from './bucket-fates.ts';
export type {
  BucketCall,
  BucketFate,
  BucketFateName,
  BucketFaultProfile,
  BucketOp,
  Shares,
} from './bucket-fates.ts';
export { CALM_METASTORE, ROUGH_METASTORE } from './meta-fates.ts';
export type { MetaCall, MetaFate, MetaFaultProfile, MetaOp } from './meta-fates.ts';
export type { Latency } from './latency.ts';

export { World } from './world.ts';
export type { SpawnOptions, WorldObserver, WorldOptions } from './world.ts';
export { SimulatedProcess } from './simulated-process.ts';
export type { FaultLayers, ProcessState } from './simulated-process.ts';
export { SimulatedPeers } from './simulated-peers.ts';
export { BucketServer } from './bucket-server.ts';
export type { BucketObserver, BucketServerOptions } from './bucket-server.ts';
export { MetaServer } from './meta-server.ts';
export type { MetaObserver, MetaServerOptions } from './meta-server.ts';
export { FaultyBucketStore } from './faulty-bucket-store.ts';
export { FaultyMetastore } from './faulty-metastore.ts';
export { Scheduler } from './scheduler.ts';
export type { EventOwner, RunEnd, SchedulerOptions } from './scheduler.ts';
export { VirtualClock } from './virtual-clock.ts';
export type { VirtualClockOptions } from './virtual-clock.ts';
export { History } from './history.ts';
export type { HistoryOptions } from './history.ts';
export { SimulationFailure } from './simulation-failure.ts';
