import { parentPort, workerData } from 'node:worker_threads';
import { tryCase } from './cases.ts';
import { titleOf } from './decoder.ts';
import { DECODERS } from './decoders.ts';

interface Task {
  readonly seed: number;
  readonly only: string;
  readonly number: number | undefined;
  readonly millis: number;
  readonly progress: Int32Array;
}

const ROUND_CASES = 100;
const FINDINGS_MAX = 3;

const { seed, only, number, millis, progress } = workerData as Task;
const endAt = Date.now() + millis;
const found = new Map<string, number>();
const chosen = DECODERS.filter((decoder) => titleOf(decoder).includes(only));

async function run(decoder: (typeof DECODERS)[number], at: number): Promise<void> {
  Atomics.store(progress, 1, DECODERS.indexOf(decoder));
  Atomics.store(progress, 2, at);
  const finding = await tryCase(decoder, seed, at);
  Atomics.add(progress, 0, 1);
  if (finding === undefined) return;
  const title = titleOf(decoder);
  const count = (found.get(title) ?? 0) + 1;
  found.set(title, count);
  if (count <= FINDINGS_MAX) parentPort!.postMessage(finding);
}

if (number !== undefined) for (const decoder of chosen) await run(decoder, number);
else {
  for (let round = 0; Date.now() < endAt && chosen.length > 0; round++) {
    for (const decoder of chosen) {
      for (let i = 0; i < ROUND_CASES && Date.now() < endAt; i++) {
        await run(decoder, round * ROUND_CASES + i);
      }
    }
  }
}
