/** Run as a process of its own: uses the pool once, closes nothing, and should end by itself. */
import { pooledCompute } from '../../../src/workers/pool.ts';

const compute = pooledCompute({ threads: 2, thresholdBytes: 0 });
const bytes = new Uint8Array(new SharedArrayBuffer(9));
bytes.set(Buffer.from('123456789'));
const [checksum] = await compute.checksums(bytes, Uint32Array.of(0, 9));
console.log(checksum!.toString(16));
