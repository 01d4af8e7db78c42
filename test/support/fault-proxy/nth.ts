import type { SeenRequest } from '../s3/fault-rules.ts';

/** Only the `count`-th request that `when` is about, from 1. */
export function nth(
  count: number,
  when: (request: SeenRequest) => boolean,
): (request: SeenRequest) => boolean {
  let seen = 0;
  return (request) => when(request) && ++seen === count;
}
