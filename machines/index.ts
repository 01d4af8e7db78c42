/** Statecharts of the protocol objects, for drawing and for model-based tests. */
export { epochMachine } from './epoch.machine.ts';
export { fenceMachine } from './fence.machine.ts';
export { settlementMachine } from './settlement.machine.ts';
export { starMachine } from './star.machine.ts';
export { streamMachine } from './stream.machine.ts';
