/** The examples of README.md. */
import { expect, it } from 'vitest';
import type { BucketCall } from '../../src/testing/bucket-fates.ts';
import type { CheckContext, Checker } from './checkers/context.ts';
import { creates, play } from './scenario.ts';

it('a lost answer in one bucket and a crash cost no record', async () => {
  await play({ seed: 1, buckets: 3 }, async (scenario) => {
    const a = await scenario.start('a');
    const stream = await scenario.open(a, 's');
    const rule = scenario.world.bucketScript.add({
      ...creates('flight'),
      target: 'bucket-1',
      fate: { kind: 'lost-response' },
    });
    expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended', start: 0 });
    expect(rule.hits).toBe(1);
    a.process.crash();
  });
});

/** Nobody acts after its death. */
class DeathChecker implements Checker {
  readonly #context: Pick<CheckContext, 'world' | 'fail'>;

  constructor(context: Pick<CheckContext, 'world' | 'fail'>) {
    this.#context = context;
  }

  bucketSent({ process, op, key }: BucketCall): void {
    const caller = this.#context.world.processes.find(({ name }) => name === process);
    if (caller?.state === 'dead')
      this.#context.fail('M0', `the dead ${process} sends ${op} ${key}`);
  }
}

it('the dead send nothing, and a checker that sees it ends the run', async () => {
  const { world } = await play({}, async (scenario) => {
    const found: string[] = [];
    const checker = new DeathChecker({
      world: scenario.world,
      fail: (rule, text) => found.push(`${rule} ${text}`),
    });
    scenario.world.observe(checker);
    const a = await scenario.start('a');
    const stream = await scenario.open(a, 's');
    void scenario.append(a, stream);
    a.process.crash();
    await scenario.wait(5_000);
    expect(found).toEqual([]);
    const call: BucketCall = {
      process: a.process.name,
      target: 'bucket-0',
      op: 'createOnly',
      key: 'k',
      serial: 0,
    };
    checker.bucketSent(call);
    expect(found).toEqual(['M0 the dead a.1 sends createOnly k']);
  });
  expect(world.living).toEqual([]);
});
