import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { crc32 } from '../../../src/format/crc.ts';
import { workerFile } from '../../../src/lib/worker-file.ts';
import type { Compute } from '../../../src/ports/compute.ts';
import { inlineCompute } from '../../../src/workers/inline.ts';
import { DEFAULT_THRESHOLD_BYTES, pooledCompute } from '../../../src/workers/pool.ts';
import { Scratch } from '../../../src/workers/scratch.ts';
import { eventually } from '../../support/eventually.ts';

const CHECK_VALUE = 0xcbf43926;

const opened: Compute[] = [];

function open(options: Partial<Parameters<typeof pooledCompute>[0]> = {}): Compute {
  const compute = pooledCompute({ threads: 1, thresholdBytes: 0, ...options });
  opened.push(compute);
  return compute;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((compute) => compute.close()));
});

/** The catalogue's check text, `times` over, in memory that threads share or not. */
function digits(memory: 'shared' | 'own', times = 1): Uint8Array {
  const length = 9 * times;
  const shared = memory === 'shared';
  const bytes = shared ? new Uint8Array(new SharedArrayBuffer(length)) : new Uint8Array(length);
  for (let i = 0; i < times; i++) bytes.set(Buffer.from('123456789'), 9 * i);
  return bytes;
}

async function ask(
  compute: Compute,
  bytes: Uint8Array,
  start: number,
  end: number,
): Promise<Uint32Array> {
  return compute.checksums(bytes, Uint32Array.of(start, end));
}

function worker(name: string): ReturnType<typeof workerFile> {
  return workerFile(`./${name}.worker`, import.meta.url);
}

describe('inlineCompute', () => {
  it('answers at once, range by range', () => {
    const compute = inlineCompute();
    const answer = compute.checksums(digits('own', 2), Uint32Array.of(0, 9, 9, 18, 4, 4));
    expect(answer).toEqual(Uint32Array.of(CHECK_VALUE, CHECK_VALUE, 0));
    expect(compute.checksums(digits('own'), new Uint32Array(0))).toEqual(new Uint32Array(0));
  });

  it('answers the checksum of any range', () => {
    const compute = inlineCompute();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(200), fc.nat(200), (bytes, a, b) => {
        const [start, end] = [a % (bytes.length + 1), b % (bytes.length + 1)].sort((x, y) => x - y);
        const expected = Uint32Array.of(crc32(bytes.subarray(start, end)));
        expect(compute.checksums(bytes, Uint32Array.of(start!, end!))).toEqual(expected);
      }),
    );
  });

  it.each<[string, number[]]>([
    ['half a pair', [0]],
    ['a range that ends before it starts', [2, 1]],
    ['a range behind the bytes', [0, 10]],
  ])('refuses %s', (_, ranges) => {
    const call = (): unknown => inlineCompute().checksums(digits('own'), Uint32Array.from(ranges));
    expect(call).toThrow('range');
  });

  it('closes, and works on', async () => {
    const compute = inlineCompute();
    await compute.close();
    expect(compute.checksums(digits('own'), Uint32Array.of(0, 9))).toEqual(
      Uint32Array.of(CHECK_VALUE),
    );
  });
});

describe('pooledCompute', () => {
  it('answers plain values below its threshold, by all ranges together', async () => {
    const compute = open({ thresholdBytes: 18 });
    const bytes = digits('shared', 2);
    expect(compute.checksums(bytes, Uint32Array.of(0, 9, 0, 8))).toBeInstanceOf(Uint32Array);
    const answer = compute.checksums(bytes, Uint32Array.of(0, 9, 9, 18));
    expect(answer).toBeInstanceOf(Promise);
    expect(await answer).toEqual(Uint32Array.of(CHECK_VALUE, CHECK_VALUE));
  });

  it('hashes elsewhere from its threshold on, a bounded number at once', async () => {
    const compute = open({ threads: 1, hashThresholdBytes: 18 });
    const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
    const bytes = digits('own', 3).subarray(4, 22);
    const expected = hashOf(bytes);
    expect(compute.sha256(bytes.subarray(1))).toBe(hashOf(bytes.subarray(1)));
    const elsewhere = compute.sha256(bytes);
    expect(elsewhere).toBeInstanceOf(Promise);
    // While one is computed there.
    expect(compute.sha256(digits('own', 300))).toBe(hashOf(digits('own', 300)));
    expect(await elsewhere).toBe(expected);
    expect(await compute.sha256(digits('own', 300))).toBe(hashOf(digits('own', 300)));
    await compute.close();
    expect(await compute.sha256(bytes)).toBe(expected);
  });

  it('hashes a copy: the memory may change at once', async () => {
    const compute = open({ hashThresholdBytes: 1 });
    const bytes = digits('own', 20_000);
    const expected = createHash('sha256').update(bytes).digest('hex');
    const answer = compute.sha256(bytes);
    bytes.fill(0);
    expect(await answer).toBe(expected);
  });

  it('hashes at once what threads share', () => {
    const expected = createHash('sha256').update(digits('own', 2)).digest('hex');
    expect(open({ hashThresholdBytes: 1 }).sha256(digits('shared', 2))).toBe(expected);
  });

  it('has a threshold by default', async () => {
    const compute = open({ thresholdBytes: DEFAULT_THRESHOLD_BYTES });
    const bytes = new Uint8Array(new SharedArrayBuffer(DEFAULT_THRESHOLD_BYTES));
    const below = compute.checksums(bytes, Uint32Array.of(1, bytes.length));
    expect(below).toEqual(Uint32Array.of(crc32(bytes.subarray(1))));
    expect(await pooledResult(compute.checksums(bytes, Uint32Array.of(0, bytes.length)))).toBe(
      crc32(bytes),
    );
  });

  it.each(['shared', 'own'] as const)(
    'reads views within %s memory and leaves them whole',
    async (memory) => {
      const bytes = digits(memory, 5).subarray(9, 36);
      const answer = await open().checksums(bytes, Uint32Array.of(9, 18));
      expect(answer).toEqual(Uint32Array.of(CHECK_VALUE));
      expect(bytes).toHaveLength(27);
    },
  );

  it('answers many tasks on several threads, each its own', async () => {
    const compute = open({ threads: 2 });
    const bytes = digits('shared', 40);
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => ask(compute, bytes, i, i + 100)),
    );
    expect(answers.map(([checksum]) => checksum)).toEqual(
      Array.from({ length: 200 }, (_, i) => crc32(bytes.subarray(i, i + 100))),
    );
  });

  it('copies what is not shared, as far as it has room for copies', async () => {
    const compute = open({ threads: 2 });
    const bytes = digits('own', 30);
    const answers = Array.from({ length: 8 }, (_, i) =>
      compute.checksums(bytes, Uint32Array.of(9, 9 + i, 20, 100 + i)),
    );
    const copied = answers.filter((answer) => answer instanceof Promise);
    expect(copied).toHaveLength(4);
    // The copy is what is read: the caller's bytes are free again.
    const expected = answers.map((_, i) => [
      crc32(bytes.subarray(9, 9 + i)),
      crc32(bytes.subarray(20, 100 + i)),
    ]);
    bytes.fill(0);
    for (const [i, answer] of answers.entries()) expect([...(await answer)]).toEqual(expected[i]);
  });

  it('refuses bad ranges at once, like the inline form', () => {
    for (const ranges of [[0, 100], [2, 1], [0]]) {
      const call = (): unknown => open().checksums(digits('shared'), Uint32Array.from(ranges));
      expect(call).toThrow('range');
    }
  });

  it.each([0, -1, 1.5])('refuses %d threads', (threads) => {
    expect(() => open({ threads })).toThrow('threads');
  });
});

describe('a pool whose workers fail', () => {
  it.each(['exiting', 'throwing', 'unloadable'])(
    'does the work of an %s worker inline, for tasks that run and tasks that wait',
    async (name) => {
      const compute = open({ threads: 2, worker: worker(name) });
      const bytes = digits('shared', 2);
      for (let round = 0; round < 3; round++) {
        const tasks = Array.from({ length: 40 }, () => ask(compute, bytes, 9, 18));
        for (const answer of await Promise.all(tasks)) {
          expect(answer).toEqual(Uint32Array.of(CHECK_VALUE));
        }
      }
    },
  );

  it('starts no more workers after repeated deaths', async () => {
    const compute = open({ worker: worker('exiting') });
    const bytes = digits('shared');
    await eventually(async () => {
      const answer = compute.checksums(bytes, Uint32Array.of(0, 9));
      await answer;
      expect(answer).toBeInstanceOf(Uint32Array);
    });
  });

  it('answers what is outstanding when it is closed', async () => {
    const compute = open({ threads: 2, worker: worker('silent') });
    const bytes = digits('shared');
    const tasks = Array.from({ length: 40 }, () => ask(compute, bytes, 0, 9));
    await compute.close();
    for (const answer of await Promise.all(tasks))
      expect(answer).toEqual(Uint32Array.of(CHECK_VALUE));
  });
});

describe('Scratch', () => {
  it('lends a bounded number of pieces and takes them back', () => {
    const scratch = new Scratch(2);
    const first = scratch.take(100)!;
    const second = scratch.take(50)!;
    expect(first.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect(scratch.take(1)).toBeUndefined();
    scratch.give(second);
    expect(scratch.take(40)).toBe(second);
    scratch.give(first);
    expect(scratch.take(1)).toBe(first);
  });

  it('exchanges a piece that is too small rather than keep more', () => {
    const scratch = new Scratch(1);
    const small = scratch.take(10)!;
    scratch.give(small);
    const large = scratch.take(11)!;
    expect(large).toHaveLength(11);
    scratch.give(large);
    expect(scratch.take(10)).toBe(large);
  });

  it('refuses a piece too many', () => {
    const scratch = new Scratch(1);
    const piece = scratch.take(10)!;
    scratch.give(piece);
    expect(() => {
      scratch.give(piece);
    }).toThrow('twice');
  });
});

describe('close', () => {
  it('ends a pool that was never used, and one that was, also twice', async () => {
    const compute = open();
    await compute.close();
    const used = open();
    await used.checksums(digits('shared'), Uint32Array.of(0, 9));
    await Promise.all([used.close(), used.close()]);
    await used.close();
  });

  it('leaves the work to the caller from then on', async () => {
    const compute = open();
    await compute.close();
    const answer = compute.checksums(digits('shared'), Uint32Array.of(0, 9));
    expect(answer).toEqual(Uint32Array.of(CHECK_VALUE));
  });

  it('is not needed for the process to end', () => {
    const file = fileURLToPath(new URL('./idle-process.ts', import.meta.url));
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', file], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: 'cbf43926\n', stderr: '' });
  });
});

async function pooledResult(
  answer: Uint32Array | Promise<Uint32Array>,
): Promise<number | undefined> {
  expect(answer).toBeInstanceOf(Promise);
  return (await answer)[0];
}
