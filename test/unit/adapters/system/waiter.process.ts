/** Run as a process of its own: waits for one timer and says so, if it lives to see it. */
import { systemClock } from '../../../../src/adapters/system/clock.ts';

const timers = process.argv[2] === 'background' ? 'background' : 'keep-alive';
systemClock({ timers }).setTimeout(() => {
  console.log('waited');
}, Number(process.argv[3]));
