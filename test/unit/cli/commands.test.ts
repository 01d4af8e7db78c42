import { describe, expect, it } from 'vitest';
import { epochMarks } from '../../../src/cli/commands/status.ts';
import { EXIT_CODES, exitCodeLines, exitCodeOf } from '../../../src/cli/exit-codes.ts';
import { Shutdown } from '../../../src/cli/shutdown.ts';
import { ERROR_CODES, EngineError, type ErrorCode } from '../../../src/lib/errors.ts';
import { fakeReader, record, runWith, type FakeStreams } from './support.ts';

const HERE = ['--root', import.meta.dirname];
const looking = (streams: FakeStreams, pageSize?: number) => ({
  openReader: async () => fakeReader(streams, pageSize),
});

describe('usage', () => {
  it('answers help and version with success', async () => {
    const help = await runWith(['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const line of exitCodeLines()) expect(help.stdout).toContain(line);
    expect(await runWith(['--version'])).toEqual({ code: 0, stdout: '1.2.3\n', stderr: '' });
    expect((await runWith([])).code).toBe(2);
  });

  it.each([
    [['reed'], "unknown command 'reed' (Did you mean read?)"],
    [['read'], "missing required argument 'stream'"],
    [['read', 's', '--form', 'x'], "unknown option '--form' (Did you mean --from?)"],
    [['read', 's', '--from', '-1'], '--from'],
    [['read', 's', '--from', '9007199254740993'], 'integer'],
    [['read', 's', '--from', '1', '--tail-offset', '1'], 'cannot be used with'],
    [['read', 's', '--from', '1', '--timestamp', '1'], 'cannot be used with'],
    [['read', 's', '--format', 'xml'], 'Allowed choices'],
    [['append'], '--stream'],
    [['append', '--stream', 's', '--copies', '0'], 'from 1 to 16'],
    [['append', '--stream', 's', '--session-timeout', '15'], 'duration'],
    [['demo', '--seconds', 'ten'], 'number'],
  ])('%j is refused in one line', async (args, part) => {
    const { code, stdout, stderr } = await runWith(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^asterlog: INVALID_OPTION [^\n]+\n$/);
    expect(stderr).toContain(part);
  });

  it('is refused as JSON with --json', async () => {
    const { code, stderr } = await runWith(['read', '--json']);
    expect(code).toBe(2);
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: 'INVALID_OPTION', kind: 'invalid', exitCode: 2 },
    });
  });

  it('does not look where there is nothing', async () => {
    for (const args of [['read', 's'], ['tail', 's'], ['streams'], ['status'], ['check']]) {
      const { code, stderr } = await runWith([...args, '--root', '/nonexistent/data']);
      expect(code).toBe(2);
      expect(stderr).toContain('there is no data directory option=root value=/nonexistent/data');
    }
  });
});

describe('exit codes', () => {
  it('are distinct and one for every kind of error', () => {
    const codes = Object.values(EXIT_CODES).map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      expect(exitCodeOf(new EngineError(code, 'x'))).toBeGreaterThan(0);
    }
    expect(exitCodeOf(new EngineError('STAR_IN_USE', 'x'))).toBe(4);
    expect(exitCodeOf(new EngineError('STREAM_NOT_FOUND', 'x'))).toBe(3);
    expect(exitCodeOf(new Error('x'))).toBe(1);
  });
});

describe('read', () => {
  const streams = { s: [record(0, 'zero'), record(1, 'one'), record(2, '')] };

  it('prints bodies as lines', async () => {
    const { code, stdout } = await runWith(['read', 's', ...HERE], looking(streams));
    expect([code, stdout]).toEqual([0, 'zero\none\n\n']);
  });

  it('prints records as JSON, within limits', async () => {
    const args = ['read', 's', '--json', '--from', '1', '--limit', '1', ...HERE];
    const { stdout } = await runWith(args, looking(streams));
    expect(stdout).toBe('{"seqNum":1,"timestamp":1001,"body":"one"}\n');
  });

  it('reports what reading found', async () => {
    const damaged = [
      record(0, 'zero'),
      new EngineError('CORRUPT_OBJECT', 'a slot object is corrupt', { details: { slot: 4 } }),
    ];
    const { code, stdout, stderr } = await runWith(['read', 's', ...HERE], looking({ s: damaged }));
    expect([code, stdout]).toEqual([1, 'zero\n']);
    expect(stderr).toBe('asterlog: CORRUPT_OBJECT a slot object is corrupt slot=4\n');
  });

  it('stops without a complaint when it is told to', async () => {
    const shutdown = new Shutdown(() => undefined);
    const aborted = [record(0, 'zero'), new EngineError('ABORTED', 'given up')];
    shutdown.stop('broken pipe');
    const run = await runWith(['read', 's', ...HERE], looking({ s: aborted }), { shutdown });
    expect([run.code, run.stderr]).toEqual([0, '']);
  });
});

describe('streams', () => {
  const streams = { 'a/1': [], 'a/2': [], 'b\u001b[2J': [] };

  it('lists names in order, safely', async () => {
    const { stdout } = await runWith(['streams', ...HERE], looking(streams));
    const names = stdout.split('\n').map((line) => line.split(/ {2,}/)[0]);
    expect(names).toEqual(['NAME', 'a/1', 'a/2', '"b\\u001b[2J"', '']);
  });

  it('pages and filters', async () => {
    const args = ['streams', '--prefix', 'a/', '--limit', '1', ...HERE];
    expect((await runWith(args, looking(streams))).stdout).toContain('--start-after "a/1"');
    const json = await runWith([...args, '--start-after', 'a/1', '--json'], looking(streams));
    expect(JSON.parse(json.stdout)).toMatchObject({ streams: [{ name: 'a/2' }], more: false });
  });
});

describe('check', () => {
  it('reads all pages of streams', async () => {
    const streams = { a: [record(5, 'x'), record(6, 'yz')], b: [], c: [record(0, 'z')] };
    const { code, stdout } = await runWith(['check', '--json', ...HERE], looking(streams, 1));
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      records: 3,
      bytes: 4,
      streams: [{ name: 'a', first: 5, tail: 7 }, { name: 'b' }, { name: 'c' }],
    });
  });

  it.each([
    ['a gap', [record(0, 'x'), record(2, 'y')], '[1, 2) is missing'],
    ['a repetition', [record(0, 'x'), record(0, 'y')], '0 follows 0'],
    ['time going back', [record(0, 'x'), record(1, 'y', { timestamp: 5 })], 'timestamp 5 of 1'],
    ['damage', [record(0, 'x'), new EngineError('DATA_LOSS', 'no copy is left')], 'DATA_LOSS'],
  ])('finds %s', async (_, records, part) => {
    const { code, stdout } = await runWith(['check', ...HERE], looking({ a: records, b: [] }));
    expect(code).toBe(1);
    expect(stdout).toContain(part);
    expect(stdout).toContain('problems: 1\n');
  });

  it.each([
    ['BUCKET_UNAVAILABLE', 4],
    ['BUCKET_REFUSED', 2],
  ] as const)('ends at the first %s, which is no damage', async (failureCode, expected) => {
    const refusal = new EngineError(failureCode, 'too few buckets');
    const streams = { a: [record(0, 'x')], b: [refusal], c: [record(0, 'z')] };
    const { code, stdout } = await runWith(['check', '--json', ...HERE], looking(streams));
    expect(code).toBe(expected);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      complete: false,
      streams: [{ name: 'a' }, { name: 'b' }],
    });
    const damaged = { a: [record(0, 'x'), record(2, 'y')], b: [refusal] };
    expect((await runWith(['check', ...HERE], looking(damaged))).code).toBe(1);
  });
});

describe('status', () => {
  const epoch = {
    star: 'main',
    epoch: 3,
    state: 'fenced',
    buckets: 3,
    copyQuorum: 2,
    window: 4,
    checkpoint: 2,
    cut: 5,
    tailSwept: false,
  } as const;

  it('draws what the cursors say', async () => {
    const reader = {
      ...fakeReader({}),
      status: async () => ({ star: 'main', epochs: [epoch], limbo: [] }),
    };
    const { stdout } = await runWith(['status', ...HERE], { openReader: async () => reader });
    expect(stdout).toContain('\nepoch 3, fenced\n0  ==###X\n');
  });

  it('shows what the slots of an open epoch hold', async () => {
    const { cut: _, ...rest } = epoch;
    const open = { ...rest, state: 'open' } as const;
    const slots = (['committed', 'partial', 'empty', 'poisoned', 'undecided'] as const).map(
      (verdict, at) => ({ slot: 2 + at, verdict, copies: 0 }),
    );
    const reader = {
      ...fakeReader({}),
      status: async () => ({ star: 'main', epochs: [open], limbo: [] }),
      slots: async () => slots,
    };
    const { stdout } = await runWith(['status', ...HERE], { openReader: async () => reader });
    expect(stdout).toContain('\nepoch 3, open\n0  ==#p_x?\n');
    const json = await runWith(['status', '--json', ...HERE], { openReader: async () => reader });
    expect(JSON.parse(json.stdout)).toEqual({
      star: 'main',
      epochs: [{ ...open, slots }],
      limbo: [],
    });
  });

  it('shows nothing beyond a cut', () => {
    const slots = [2, 3, 4, 5, 6].map(
      (slot) => ({ slot, verdict: 'committed', copies: 2 }) as const,
    );
    expect(epochMarks({ ...epoch, slots })).toEqual([
      'settled',
      'settled',
      'committed',
      'committed',
      'committed',
      'dead',
    ]);
  });
});

describe('stopping', () => {
  it('asks once and ends at once when asked again', () => {
    const exits: number[] = [];
    const shutdown = new Shutdown((code) => exits.push(code));
    shutdown.stop('SIGINT');
    expect([shutdown.signal.aborted, shutdown.exitCode, exits]).toEqual([true, 130, []]);
    shutdown.stop('broken pipe');
    expect(exits).toEqual([]);
    shutdown.stop('SIGTERM');
    expect([exits, shutdown.exitCode]).toEqual([[143], 130]);
  });
});
