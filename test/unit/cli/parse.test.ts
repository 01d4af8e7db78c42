import { describe, expect, it } from 'vitest';
import { duration, instant, integerIn, numberIn } from '../../../src/cli/parse.ts';

describe('option values', () => {
  it.each([
    ['500ms', 500],
    ['15s', 15_000],
    ['1.5s', 1_500],
    ['2m', 120_000],
    ['1h', 3_600_000],
  ])('duration %s', (text, millis) => {
    expect(duration(text)).toBe(millis);
  });

  it.each(['15', '', 's', '-1s', '1 s', '1d', 'Infinitys', `${'9'.repeat(400)}h`])(
    'duration %j is refused',
    (text) => {
      expect(() => duration(text)).toThrow('duration');
    },
  );

  it('integers stay within their bounds', () => {
    const parse = integerIn(1, 16);
    expect(parse('16')).toBe(16);
    for (const text of ['0', '17', '1.5', '1e1', '0x1', ' 1', '']) {
      expect(() => parse(text)).toThrow('from 1 to 16');
    }
    expect(() => integerIn(0, Number.MAX_SAFE_INTEGER)('9007199254740993')).toThrow('integer');
  });

  it('numbers may have a fraction', () => {
    expect(numberIn(0.5, 10)('0.5')).toBe(0.5);
    for (const text of ['0.4', '11', '.5', '1e1', 'x']) {
      expect(() => numberIn(0.5, 10)(text)).toThrow('number');
    }
  });

  it('instants are milliseconds or ISO dates', () => {
    expect(instant('1700000000000')).toBe(1_700_000_000_000);
    expect(instant('1970-01-01T00:00:01Z')).toBe(1_000);
    for (const text of ['yesterday', '-5', '1969-12-31T00:00:00Z']) {
      expect(() => instant(text)).toThrow('ISO');
    }
  });
});
