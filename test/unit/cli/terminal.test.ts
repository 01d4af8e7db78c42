import { describe, expect, it } from 'vitest';
import { createTerminal, LiveBlock } from '../../../src/cli/terminal.ts';
import { FenceView } from '../../../src/cli/demo/fence-view.ts';
import { recorder } from './support.ts';

const UTF8 = { LANG: 'C.UTF-8', TERM: 'xterm' };

describe('a terminal', () => {
  it('has colours and unicode', () => {
    const terminal = createTerminal(recorder({ isTTY: true, columns: 100 }), UTF8);
    expect(terminal.interactive).toBe(true);
    expect(terminal.charset).toBe('unicode');
    expect(terminal.paint.bad('x')).toBe('\u001b[31mx\u001b[0m');
    expect(terminal.width()).toBe(100);
  });

  it('keeps its drawings but not its colours with NO_COLOR', () => {
    const terminal = createTerminal(recorder({ isTTY: true }), { ...UTF8, NO_COLOR: '1' });
    expect(terminal.paint.bad('x')).toBe('x');
    expect(terminal.interactive).toBe(true);
    const empty = createTerminal(recorder({ isTTY: true }), { ...UTF8, NO_COLOR: '' });
    expect(empty.paint.bad('x')).not.toBe('x');
  });

  it('draws with ASCII where the locale is not UTF-8, and plainly where it is dumb', () => {
    expect(createTerminal(recorder({ isTTY: true }), { LANG: 'C' }).charset).toBe('ascii');
    expect(createTerminal(recorder({ isTTY: true }), { ...UTF8, TERM: 'dumb' }).interactive).toBe(
      false,
    );
  });
});

describe('not a terminal', () => {
  it('has plain text of 80 columns', () => {
    const sink = recorder();
    const terminal = createTerminal(sink, UTF8);
    expect([terminal.interactive, terminal.charset, terminal.width()]).toEqual([
      false,
      'ascii',
      80,
    ]);
    terminal.line(terminal.paint.good('fine'));
    expect(sink.text()).toBe('fine\n');
  });
});

describe('a live block', () => {
  it('is drawn again in place, not too often', () => {
    const sink = recorder({ isTTY: true });
    let now = 0;
    const live = new LiveBlock(createTerminal(sink, UTF8), { minMillis: 100, now: () => now });
    live.update(() => ['one', 'two']);
    live.update(() => ['never']);
    now = 100;
    live.update(() => ['three', 'four']);
    live.end(['done']);
    live.end();
    expect(sink.text()).toBe(
      '\r\u001b[2Kone\n\u001b[2Ktwo\n\u001b[0J' +
        '\u001b[2A\r\u001b[2Kthree\n\u001b[2Kfour\n\u001b[0J' +
        '\u001b[2A\r\u001b[2Kdone\n\u001b[0J' +
        '\r\u001b[0J',
    );
  });

  it('shows only what it leaves behind when nobody watches', () => {
    const sink = recorder();
    const live = new LiveBlock(createTerminal(sink, UTF8), { minMillis: 0 });
    live.update(() => ['moving']);
    live.end(['done']);
    expect(sink.text()).toBe('done\n');
  });
});

describe('the fence view', () => {
  const progress = {
    star: 'main',
    epoch: 3,
    phase: 'walking',
    slot: 12,
    rounds: 2,
    slots: [
      { slot: 10, verdict: 'committed' },
      { slot: 12, verdict: 'repaired' },
    ],
    millis: 4.2,
  } as const;
  const fenced = {
    ...progress,
    phase: 'fenced',
    rounds: 3,
    cut: 13,
    slots: [{ slot: 13, verdict: 'dead' }],
  } as const;

  it('leaves the walked slots and the cut behind', () => {
    const sink = recorder();
    const view = new FenceView(createTerminal(sink, {}));
    view.show(progress);
    view.show(fenced);
    view.show({ ...fenced, epoch: 4, slots: [{ slot: 0, verdict: 'dead' }], cut: 0 });
    expect(sink.text()).toBe(
      'fence of epoch 3: cut at slot 13, 3 rounds, 4.20 ms\n' +
        '  10  #.rX\n' +
        '  . not looked at   # committed   r repaired   X dead: the cut\n' +
        'fence of epoch 4: cut at slot 0, 3 rounds, 4.20 ms\n' +
        '  0  X\n' +
        '  X dead: the cut\n',
    );
  });

  it('shows every step on a terminal', () => {
    const sink = recorder({ isTTY: true });
    const view = new FenceView(createTerminal(sink, { NO_COLOR: '1' }));
    view.show(progress);
    expect(sink.text()).toContain('fence of epoch 3: walking, slot 12, 2 rounds, 4.20 ms\n');
    expect(sink.text()).toContain('10  #.r\n');
  });
});
