import { expect, test } from 'vitest';
import { Window, windowOf } from '../../../../src/adapters/s3/window.ts';

test('a burst of refusals halves the window once', () => {
  const window = new Window(64);
  const begun = Array.from({ length: 40 }, () => window.begin());
  for (const call of begun) window.throttled(call);
  expect(window.concurrent).toBe(32);
  window.throttled(window.begin());
  expect(window.concurrent).toBe(16);
});

test('it never closes, and grows by one with every window of successes', () => {
  const window = new Window(8);
  for (let round = 0; round < 20; round++) window.throttled(window.begin());
  expect(window.concurrent).toBe(1);
  window.succeeded();
  expect(window.concurrent).toBe(2);
  for (let count = 0; count < 3; count++) window.succeeded();
  expect(window.concurrent).toBe(3);
  for (let count = 0; count < 100; count++) window.succeeded();
  expect(window.concurrent).toBe(8);
});

test('what reads are told says nothing about creations', () => {
  const windows = { creates: new Window(8), others: new Window(8) };
  for (const method of ['GET', 'DELETE', 'POST']) {
    const window = windowOf(windows, method);
    window.throttled(window.begin());
  }
  expect([windows.creates.concurrent, windows.others.concurrent]).toEqual([8, 1]);
  const window = windowOf(windows, 'PUT');
  window.throttled(window.begin());
  expect(windows.creates.concurrent).toBe(4);
});
