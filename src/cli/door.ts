/** The way from the command line's options to engines over a data directory. */
import { EngineError } from '../lib/errors.ts';
import type { EngineDoor } from './store.ts';

export const engineDoor: EngineDoor = {
  openEngine: () => Promise.reject(new EngineError('INTERNAL', 'there is no engine yet')),
  openReader: () => Promise.reject(new EngineError('INTERNAL', 'there is no engine yet')),
};
