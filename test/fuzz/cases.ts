/** Cases by number: the same decoder, seed and case give the same input again. */
import { Prng } from '../../src/lib/prng.ts';
import { anyBytes, drawn } from './generate.ts';
import { titleOf, type Decoder } from './decoder.ts';
import { judge } from './judge.ts';
import { mutated } from './mutate.ts';
import { oddArguments } from './odd-values.ts';

export interface Finding {
  readonly decoder: string;
  readonly seed: number;
  readonly case: number;
  readonly problem: string;
  readonly input: string;
}

export function inputOf(
  decoder: Decoder,
  seed: number,
  number: number,
): Uint8Array | readonly unknown[] {
  const random = new Prng(seed * 2 ** 24 + number);
  if (decoder.kind === 'value') return oddArguments(random.pick(decoder.seeds), random);
  if (random.chance(0.1)) return drawn(anyBytes, random);
  const { sound } = decoder;
  const seeds = sound !== undefined && random.chance(0.5) ? [drawn(sound, random)] : decoder.seeds;
  const bytes = mutated(seeds, random);
  return decoder.reseal !== undefined && random.chance(0.8)
    ? decoder.reseal(Uint8Array.from(bytes))
    : bytes;
}

export async function tryCase(
  decoder: Decoder,
  seed: number,
  number: number,
): Promise<Finding | undefined> {
  const input = inputOf(decoder, seed, number);
  const problem = await judge(decoder, input);
  if (problem === undefined) return undefined;
  return { decoder: titleOf(decoder), seed, case: number, problem, input: shown(input) };
}

function shown(input: Uint8Array | readonly unknown[]): string {
  if (!(input instanceof Uint8Array)) return input.map(kindOf).join(', ');
  const bytes = Buffer.from(input);
  const isText = bytes.every((byte) => byte >= 0x20 && byte < 0x7f);
  const text = isText ? bytes.toString('latin1') : bytes.toString('hex');
  return text.length > 2_000 ? `${text.slice(0, 2_000)}...` : text;
}

function kindOf(value: unknown): string {
  try {
    // Undefined for a function or a symbol, whatever its type says.
    const text = JSON.stringify(value) as string | undefined;
    return text ?? typeof value;
  } catch {
    return typeof value;
  }
}
