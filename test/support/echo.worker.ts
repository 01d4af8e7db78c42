import { assert } from '../../src/lib/assert.ts';

/** Shows that a worker runs from source and can import source. */
export default function echo(task: unknown): { echoed: unknown } {
  assert(task !== undefined, 'a task has a value');
  return { echoed: task };
}
