/** Who leads is looked for as long as somebody wants to know, and no longer. */
import { describe, expect, test } from 'vitest';
import { HolderSearch } from '../../../../src/engine/forwarding/holder-search.ts';
import type { Target } from '../../../../src/engine/forwarding/target.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import { Prng } from '../../../../src/lib/prng.ts';
import { deferred } from '../../../../src/lib/wait.ts';
import { ManualClock } from '../../../support/manual-clock.ts';

const moved = new EngineError('FENCED', 'moved');
const closed = new EngineError('CLOSED', 'closed');

class Holder {
  readonly closing = deferred<void>();
  readonly abandoned: EngineError[] = [];
  readonly target = {
    close: () => this.closing.promise,
    abandon: (error: EngineError) => {
      this.abandoned.push(error);
      this.closing.resolve();
    },
  } as unknown as Target;
}

function searchFor(holders: Holder[], onFound: (target: Target, search: HolderSearch) => void) {
  const clock = new ManualClock();
  let wanted = false;
  const search: HolderSearch = new HolderSearch({
    clock,
    random: new Prng(1),
    find: async () => holders.shift()!.target,
    onFound: (target) => onFound(target, search),
    onFailed: () => undefined,
    isWanted: () => wanted,
  });
  return {
    search,
    clock,
    want: () => {
      wanted = true;
      search.want();
    },
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a search for the holder', () => {
  test('looks again for one that is gone at the moment it is found', async () => {
    const [first, second] = [new Holder(), new Holder()];
    const found: Target[] = [];
    const { clock, want } = searchFor([first, second], (target, search) => {
      found.push(target);
      if (target !== first.target) return;
      search.drop(target, moved);
      search.want();
    });
    want();
    await settle();
    await clock.advance(60_000);
    await settle();
    expect(found).toEqual([first.target, second.target]);
  });

  test('answers whoever asks after its end', async () => {
    const { search } = searchFor([], () => undefined);
    search.stop(closed);
    await expect(search.target({})).rejects.toBe(closed);
    await expect(search.target({})).rejects.toBe(closed);
  });

  test('closes when those that lead no more have answered what they accepted', async () => {
    const [first, second] = [new Holder(), new Holder()];
    const { search, clock } = searchFor([first, second], () => undefined);
    search.drop(await search.target({}), moved);
    const next = search.target({});
    await settle();
    await clock.advance(60_000);
    expect(await next).toBe(second.target);
    let isClosed = false;
    const closing = search.close({}).then(() => {
      isClosed = true;
    });
    second.closing.resolve();
    await settle();
    expect(isClosed).toBe(false);
    first.closing.resolve();
    await closing;
  });

  test('lets go of all of them at once when it is given up', async () => {
    const [first, second] = [new Holder(), new Holder()];
    const { search, clock } = searchFor([first, second], () => undefined);
    search.drop(await search.target({}), moved);
    const next = search.target({});
    await settle();
    await clock.advance(60_000);
    await next;
    search.abandon(closed);
    expect([first.abandoned, second.abandoned]).toEqual([[closed], [closed]]);
  });
});
