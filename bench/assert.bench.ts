/** What an assertion costs on a hot path: with a constant message, and with one built each time. */
import { bench, do_not_optimize } from 'mitata';
import { assert } from '../src/lib/assert.ts';
import { runBenches } from './_harness.ts';

let slot = 0;

bench('no assertion', () => {
  slot = (slot + 1) & 0xffff;
  do_not_optimize(slot);
});

bench('assert, constant message', () => {
  slot = (slot + 1) & 0xffff;
  assert(slot >= 0, 'slot is negative');
  do_not_optimize(slot);
});

bench('assert, message built each time', () => {
  slot = (slot + 1) & 0xffff;
  assert(slot >= 0, `slot is negative slot=${slot}`);
  do_not_optimize(slot);
});

await runBenches();
