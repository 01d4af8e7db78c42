/** The way from the command line's options to engines over a data directory. */
import { directoryComponents, type Components } from '../engine/components.ts';
import { createEngine, openReader } from '../engine/create.ts';
import { settingsOf, type EngineDoor, type StoreOptions } from './store.ts';

export const engineDoor: EngineDoor = {
  openEngine: (options, { settings, ...hooks } = {}) =>
    createEngine({
      components: componentsOf(options),
      settings: { ...settingsOf(options), ...settings },
      ...hooks,
    }),
  openReader: (options) =>
    openReader({ components: componentsOf(options), settings: settingsOf(options) }),
};

function componentsOf({ root, buckets, bucket }: StoreOptions): Components {
  return directoryComponents({ root, buckets: bucket === undefined ? buckets : [...bucket] });
}
