import { describe, expect, it } from 'vitest';
import { AssertionError, assert, assertNever, unreachable } from '../../../src/lib/assert.ts';

describe('assert', () => {
  it('returns when the condition holds', () => {
    expect(() => {
      assert('0', 'order');
    }).not.toThrow();
  });

  it('throws an AssertionError with the constant message when it does not', () => {
    expect(() => {
      assert(0, 'zero is not a count');
    }).toThrow(new AssertionError('zero is not a count'));
  });

  it('narrows the type', () => {
    const value = ((): string | undefined => 'x')();
    assert(value !== undefined, 'value');
    expect(value.length).toBe(1);
  });
});

describe('assertNever', () => {
  it.each([
    ['poison', 'unexpected value value=poison'],
    [{ kind: 'poison', body: new Uint8Array(9) }, 'unexpected value value=poison'],
    [{ type: 'slot.observed' }, 'unexpected value value=slot.observed'],
    [{}, 'unexpected value value=object'],
    [undefined, 'unexpected value value=undefined'],
  ])('names the discriminant only: %j', (value, message) => {
    expect(() => assertNever(value as never)).toThrow(new AssertionError(message));
  });
});

describe('unreachable', () => {
  it('throws', () => {
    expect(() => unreachable('cut moved')).toThrow(new AssertionError('cut moved'));
  });
});
