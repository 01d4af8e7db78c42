/**
 * Bytes, text and options from outside: whatever they are, each decoder answers, or refuses with one
 * of its codes; soon, in little memory, twice the same, and without touching its input.
 * Longer: `npm run fuzz -- --minutes 10`.
 */
import fc from 'fast-check';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { tryCase, type Finding } from './cases.ts';
import { titleOf, type BytesDecoder } from './decoder.ts';
import { DECODERS } from './decoders.ts';
import { answerOf, judge } from './judge.ts';
import { byteFlips, splices, truncations } from './mutate.ts';

const CASES = 250;
const SEED = 1;
const SOUND_RUNS = 40;

const bytesDecoders = DECODERS.filter((decoder) => decoder.kind === 'bytes');
const sealed = bytesDecoders.filter(({ covered }) => covered === 'all');

test.each(DECODERS.map((decoder) => [titleOf(decoder), decoder] as const))(
  '%s takes whatever comes',
  async (_title, decoder) => {
    const findings: Finding[] = [];
    for (let number = 0; number < CASES && findings.length < 3; number++) {
      const finding = await tryCase(decoder, SEED, number);
      if (finding !== undefined) findings.push(finding);
    }
    expect(findings).toEqual([]);
  },
);

test.each(bytesDecoders.map((decoder) => [titleOf(decoder), decoder] as const))(
  '%s takes sound bytes, and any cut of them',
  async (_title, decoder) => {
    for (const seed of decoder.seeds) {
      expect(await answerOf(decoder, seed)).toBeDefined();
      expect(await judge(decoder, seed)).toBeUndefined();
      for (const cut of truncations(seed)) expect(await judge(decoder, cut)).toBeUndefined();
    }
  },
);

test.each(
  bytesDecoders.flatMap((decoder) =>
    decoder.sound === undefined ? [] : [[titleOf(decoder), decoder, decoder.sound] as const],
  ),
)('%s takes every sound input', async (_title, decoder, sound) => {
  await fc.assert(
    fc.asyncProperty(sound, async (input) => {
      expect(await answerOf(decoder, input)).toBeDefined();
      expect(await judge(decoder, input)).toBeUndefined();
    }),
    { numRuns: SOUND_RUNS, seed: SEED },
  );
});

describe('where checksums cover every byte', () => {
  /** Inputs that differ from the seeds, and mean something else. */
  async function believed(decoder: BytesDecoder, inputs: Iterable<Uint8Array>): Promise<string[]> {
    const answers: unknown[] = [];
    for (const seed of decoder.seeds) answers.push(await answerOf(decoder, seed));
    const { means = (answer) => answers.some((known) => isDeepStrictEqual(answer, known)) } =
      decoder;
    const wrong: string[] = [];
    for (const input of inputs) {
      const answer = await answerOf(decoder, input);
      if (answer !== undefined && !means(answer)) wrong.push(Buffer.from(input).toString('hex'));
    }
    return wrong;
  }

  test.each(sealed.map((decoder) => [titleOf(decoder), decoder] as const))(
    '%s refuses every byte that differs, every cut and every splice',
    async (_title, decoder) => {
      for (const seed of decoder.seeds) {
        expect(await believed(decoder, byteFlips(seed))).toEqual([]);
        expect(await believed(decoder, truncations(seed))).toEqual([]);
        for (const other of decoder.seeds) {
          expect(await believed(decoder, splices(seed, other))).toEqual([]);
        }
      }
    },
  );
});
