import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BodyTracker } from '../../../../src/adapters/s3/body-tracker.ts';
import { eventually } from '../../../support/eventually.ts';

/** More than the system takes at once. */
const LARGE_BYTES = 32 << 20;

let server: ReturnType<typeof createServer>;
let socket: Socket;
let peer: Socket;

beforeEach(async () => {
  server = createServer((accepted) => {
    peer = accepted.on('error', () => undefined).pause();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on(
    'error',
    () => undefined,
  );
  await Promise.all([once(server, 'connection'), once(socket, 'connect')]);
});
afterEach(() => {
  socket.destroy();
  peer.destroy();
  server.close();
});

test('a body is free once all of it was written, and not before', async () => {
  const bodies = new BodyTracker();
  bodies.watch(socket);
  const body = Buffer.alloc(LARGE_BYTES);
  const released = vi.fn();
  bodies.expect(body, released);
  socket.write('head', 'latin1');
  socket.write(body);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(released).not.toHaveBeenCalled();
  peer.resume();
  await eventually(() => expect(released).toHaveBeenCalledTimes(1));
});

test('a body is free once its connection was cut', async () => {
  const bodies = new BodyTracker();
  bodies.watch(socket);
  const body = Buffer.alloc(LARGE_BYTES);
  const released = vi.fn();
  bodies.expect(body, released);
  socket.write(body);
  bodies.cut(Buffer.alloc(1));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(socket.destroyed).toBe(false);
  bodies.cut(body);
  expect(socket.destroyed).toBe(true);
  await eventually(() => expect(released).toHaveBeenCalledTimes(1));
});

test('what is not expected is written as ever', async () => {
  const bodies = new BodyTracker();
  bodies.watch(socket);
  const forgotten = Buffer.from('forgotten');
  const released = vi.fn();
  bodies.expect(forgotten, released);
  bodies.forget(forgotten);
  const written = vi.fn();
  socket.write(forgotten, written);
  await eventually(() => expect(written).toHaveBeenCalledTimes(1));
  expect(released).not.toHaveBeenCalled();
  const [data] = (await once(peer.resume(), 'data')) as [Buffer];
  expect(data.toString()).toBe('forgotten');
});
