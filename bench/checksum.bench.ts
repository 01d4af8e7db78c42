/**
 * Where a checksum should be made: inline, or on the pool. Two figures a size decide it: how long
 * until the answer is there, and how long this thread is kept busy meanwhile.
 */
import { bench, do_not_optimize, group } from 'mitata';
import type { Compute } from '../src/ports/compute.ts';
import { inlineCompute } from '../src/workers/inline.ts';
import { pooledCompute } from '../src/workers/pool.ts';
import { benchOptions, runBenches } from './_harness.ts';

const { smoke, json } = benchOptions();
const KIB = 1024;
const SIZES = smoke ? [64 * KIB] : [64, 128, 256, 512, 1_024, 4_096].map((size) => size * KIB);
/** No more than the pool has room for copies. */
const IN_FLIGHT = 2;

const inline = inlineCompute();
const pooled = pooledCompute({ threads: 1, thresholdBytes: 0, hashThresholdBytes: 0 });

for (const size of SIZES) {
  const shared = new Uint8Array(new SharedArrayBuffer(size)).fill(7);
  const own = new Uint8Array(size).fill(7);
  const ranges = Uint32Array.of(0, size);
  group(`${size / KIB} KiB`, () => {
    bench('inline', () => do_not_optimize(inline.checksums(shared, ranges)));
    bench('pool, shared memory', async () =>
      do_not_optimize(await pooled.checksums(shared, ranges)),
    );
    bench('pool, copied memory', async () => do_not_optimize(await pooled.checksums(own, ranges)));
    bench('hash, inline', () => do_not_optimize(inline.sha256(own)));
    bench('hash, elsewhere', async () => do_not_optimize(await pooled.sha256(own)));
  });
}

await runBenches();
if (!json) await reportBusyTime();
await pooled.close();

/** Time that this thread spends on one checksum while it has others to wait for. */
async function reportBusyTime(): Promise<void> {
  console.log('\nthis thread is busy, us (2 in flight), checksums: inline / shared / copied');
  console.log('                                      hashes: inline / elsewhere (1 in flight)');
  for (const size of SIZES) {
    const shared = new Uint8Array(new SharedArrayBuffer(size)).fill(7);
    const own = new Uint8Array(size).fill(7);
    const figures = [
      await busyMicros(inline, shared),
      await busyMicros(pooled, shared),
      await busyMicros(pooled, own),
    ];
    figures.push(await busyMicros(inline, own, hashOf), await busyMicros(pooled, own, hashOf, 1));
    const text = figures.map((micros) => micros.toFixed(1).padStart(8)).join('');
    console.log(`${`${size / KIB} KiB`.padStart(9)}${text}`);
  }
}

type Work = (compute: Compute, bytes: Uint8Array) => unknown;

function checksumOf(compute: Compute, bytes: Uint8Array): unknown {
  return compute.checksums(bytes, Uint32Array.of(0, bytes.length));
}

function hashOf(compute: Compute, bytes: Uint8Array): unknown {
  return compute.sha256(bytes);
}

async function busyMicros(
  compute: Compute,
  bytes: Uint8Array,
  work: Work = checksumOf,
  inFlight = IN_FLIGHT,
): Promise<number> {
  const count = smoke ? IN_FLIGHT : 2_000;
  const before = performance.eventLoopUtilization();
  for (let done = 0; done < count; done += inFlight) {
    await Promise.all(Array.from({ length: inFlight }, async () => work(compute, bytes)));
  }
  return (performance.eventLoopUtilization(before).active * 1_000) / count;
}
