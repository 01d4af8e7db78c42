/** The way from the command line's options to engines over a data directory or buckets on S3. */
import {
  createEngine,
  explainAsOperator,
  fenceAsOperator,
  openReader,
  releaseAsOperator,
} from '../engine/create.ts';
import { componentsOf } from './components.ts';
import { settingsOf, type EngineDoor, type StoreOptions } from './store.ts';

export const engineDoor: EngineDoor = {
  openEngine: (options, { settings, ...hooks } = {}) =>
    createEngine({
      components: componentsOf(options),
      settings: { ...settingsOf(options), ...settings },
      ...hooks,
    }),
  openReader: (options) => openReader(dataOf(options)),
  fence: (options, target, hooks) => fenceAsOperator({ ...dataOf(options), ...hooks }, target),
  release: (options, request, hooks) =>
    releaseAsOperator({ ...dataOf(options), ...hooks }, request),
  explain: (options, target, hooks) => explainAsOperator({ ...dataOf(options), ...hooks }, target),
};

function dataOf(options: StoreOptions) {
  return { components: componentsOf(options), settings: settingsOf(options) };
}
