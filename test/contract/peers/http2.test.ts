import { connect as connectHttp2 } from 'node:http2';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Http2Peers, type Http2PeersOptions } from '../../../src/adapters/peers/http2-peers.ts';
import { authorizationOf, authorizes } from '../../../src/adapters/peers/token.ts';
import { PEER_MESSAGE_BYTES_MAX } from '../../../src/format/peer-frame.ts';
import type { Log } from '../../../src/ports/log.ts';
import { Accepted, errorOf, message, peersContract, textOf } from './contract.ts';

const TOKEN = 'token-of-all-engines';
const opened: { close(): Promise<unknown> }[] = [];

function peers(options: Partial<Http2PeersOptions> = {}): Http2Peers {
  const made = new Http2Peers({ host: '127.0.0.1', port: 0, token: TOKEN, ...options });
  opened.push(made);
  return made;
}

/** Stands between two engines and can be cut, or fall silent, as a cable does. */
class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #silent = false;

  constructor(target: string) {
    const [host, port] = target.split(':');
    this.#server = createServer({ allowHalfOpen: true }, (near) => {
      const far = connect(Number(port), host);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => to.destroy());
        from.on('end', () => !this.#silent && to.end());
        from.on('close', () => !this.#silent && to.destroy());
        from.on('data', (chunk) => {
          if (!this.#silent) to.write(chunk);
        });
      }
    });
    opened.push(this);
  }

  async address(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    if (typeof address !== 'object' || address === null) throw new Error('no port');
    return `127.0.0.1:${address.port}`;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  silence(): void {
    this.#silent = true;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
  }
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
});

peersContract('HTTP/2', async () => {
  const far = peers();
  const near = peers();
  const stranger = peers({ token: 'token-of-nobody-here' });
  let wire: Wire | undefined;
  return {
    near,
    stranger,
    far: {
      get connections() {
        return far.connections;
      },
      open: (address, options) => far.open(address, options),
      close: () => far.close(),
      listen: async (accept) => {
        const { address } = await far.listen(accept);
        wire = new Wire(address);
        return { address: await wire.address() };
      },
    },
    cut: () => wire?.cut(),
    dispose: async () => {
      await Promise.all([near.close(), far.close(), stranger.close()]);
    },
  };
});

/** Sends raw bytes to the server and answers what happened to the connection. */
function raw(address: string, bytes: Uint8Array): Promise<string> {
  const [host, port] = address.split(':');
  return new Promise((resolve) => {
    const socket = connect(Number(port), host, () => socket.write(bytes));
    socket.on('error', () => resolve('broken'));
    socket.on('close', () => resolve('closed'));
    socket.resume();
  });
}

interface Line {
  readonly fields: object;
  readonly text: string;
}

function recorder(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const add = (fields: object, text: string): void => void lines.push({ fields, text });
  return { log: { debug: add, info: add, warn: add, error: add }, lines };
}

/** A request as any HTTP/2 client makes it; answers its status, or why there is none. */
async function request(
  address: string,
  headers: Record<string, string>,
  body?: Uint8Array,
): Promise<number | string> {
  const session = connectHttp2(`http://${address}`);
  opened.push({ close: async () => session.destroy() });
  session.on('error', () => undefined);
  return new Promise((resolve) => {
    const stream = session.request({ ':method': 'POST', ':path': '/asterlog/peers/1', ...headers });
    stream.on('response', ({ ':status': status }) => resolve(status ?? 'none'));
    stream.on('error', () => resolve('broken'));
    stream.on('close', () => resolve('closed'));
    if (body !== undefined) stream.write(body);
  });
}

describe('HTTP/2 between engines', () => {
  async function server(options: Partial<Http2PeersOptions> = {}) {
    const accepted = new Accepted();
    const { log, lines } = recorder();
    const far = peers({ log, ...options });
    const { address } = await far.listen(accepted.accept);
    return { accepted, far, address, lines };
  }

  it('answers 401 without, with another and with a longer token, and never logs one', async () => {
    const { address, accepted, lines } = await server();
    const wrong = [{}, { authorization: 'Bearer x' }, { authorization: `Bearer ${TOKEN}x` }];
    for (const headers of wrong) {
      expect(await request(address, headers, new Uint8Array(100_000))).toBe(401);
    }
    expect(accepted.count).toBe(0);
    expect(lines.filter(({ text }) => text === 'a peer was refused')).toHaveLength(3);
    expect(JSON.stringify(lines)).not.toContain(TOKEN);
    expect(JSON.stringify(lines)).not.toContain('Bearer');
  });

  it('compares tokens of any length', () => {
    expect(authorizes(authorizationOf(TOKEN), TOKEN)).toBe(true);
    expect(authorizes(undefined, TOKEN)).toBe(false);
    expect(authorizes('', TOKEN)).toBe(false);
    expect(authorizes(`${authorizationOf(TOKEN)} `, TOKEN)).toBe(false);
    expect(authorizes(authorizationOf('schlüssel ☃'), 'schlüssel ☃')).toBe(true);
  });

  it('answers 404 to another path or method, after the token', async () => {
    const { address, accepted } = await server();
    const authorization = authorizationOf(TOKEN);
    expect(await request(address, { authorization, ':path': '/asterlog/peers/2' })).toBe(404);
    expect(await request(address, { authorization, ':method': 'PUT' })).toBe(404);
    expect(await request(address, { ':path': '/' })).toBe(401);
    expect(accepted.count).toBe(0);
  });

  it('drops a connection that talks garbage, or does not say anything', async () => {
    const { address, accepted } = await server({ limits: { headerMillis: 1_000 } });
    expect(await raw(address, Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toMatch(/closed|broken/);
    expect(await raw(address, Buffer.alloc(70_000, 0xa5))).toMatch(/closed|broken/);
    expect(await raw(address, Buffer.alloc(0))).toMatch(/closed|broken/);
    // The preface alone, then silence.
    const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    expect(await raw(address, preface)).toMatch(/closed|broken/);
    const channel = await peers().open(address);
    await (await accepted.next()).send(message('still here'));
    expect(textOf(await channel.receive())).toBe('still here');
  });

  it('breaks a channel whose frames are too long, damaged, or go on behind the end', async () => {
    const { address, accepted } = await server();
    const long = Buffer.alloc(12);
    long.writeUInt32LE(PEER_MESSAGE_BYTES_MAX + 1);
    const damaged = Buffer.from([1, 0, 0, 0, 9, 9, 9, 9, 7]);
    for (const body of [long, Buffer.alloc(12), damaged]) {
      await request(address, { authorization: authorizationOf(TOKEN) }, body);
      expect((await errorOf((await accepted.next()).receive())).code).toBe('PEER_PROTOCOL');
    }
  });

  it('notices a connection that is open on one side only', async () => {
    const { address, accepted } = await server({ limits: { pingMillis: 1_000 } });
    const wire = new Wire(address);
    const near = peers({ limits: { pingMillis: 1_000 } });
    const channel = await near.open(await wire.address());
    const other = await accepted.next();
    wire.silence();
    expect((await errorOf(channel.receive())).code).toBe('PEER_UNAVAILABLE');
    expect((await errorOf(other.receive())).code).toBe('PEER_UNAVAILABLE');
    await expect.poll(() => near.connections.opened).toBe(0);
  });

  it('gives up by its deadline and signal while the other side says nothing', async () => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    opened.push({ close: async () => silent.close() });
    const address = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    const near = peers({ limits: { connectMillis: 400 } });
    const late = await errorOf(near.open(address, { timeoutMillis: 20 }));
    expect(late.code).toBe('DEADLINE_EXCEEDED');
    const controller = new AbortController();
    const waiting = errorOf(near.open(address, { signal: controller.signal }));
    controller.abort();
    expect((await waiting).code).toBe('ABORTED');
    expect((await errorOf(near.open(address))).code).toBe('PEER_UNAVAILABLE');
  });

  it('closes connections without channels after a while, and opens them again', async () => {
    const { address, accepted } = await server();
    const near = peers({ limits: { idleMillis: 30 } });
    const channel = await near.open(address);
    channel.destroy();
    await expect.poll(() => near.connections.opened).toBe(0);
    expect((await near.open(address)).isOver).toBe(false);
    expect(accepted.count).toBe(2);
  });

  it('takes no more connections and channels than it may', async () => {
    const { address } = await server({ limits: { connections: 1, channelsPerConnection: 2 } });
    const near = peers();
    const first = await near.open(address);
    const second = await near.open(address);
    const third = await errorOf(near.open(address, { timeoutMillis: 100 }));
    expect(third.code).toMatch(/DEADLINE_EXCEEDED|PEER_UNAVAILABLE/);
    const other = await errorOf(peers().open(address, { timeoutMillis: 500 }));
    expect(other.code).toMatch(/DEADLINE_EXCEEDED|PEER_UNAVAILABLE/);
    first.destroy();
    second.destroy();
    await near.open(address);
  });

  it('says which place it could not have', async () => {
    const { address } = await server();
    const port = Number(address.split(':')[1]);
    const error = await errorOf(peers({ port }).listen(() => undefined));
    expect(error.code).toBe('INVALID_OPTION');
    expect(error.details).toMatchObject({ option: 'listen', port, why: 'EADDRINUSE' });
  });

  it('advertises what it is told', async () => {
    const listen = async (advertise: string): Promise<string> =>
      (await peers({ advertise }).listen(() => undefined)).address;
    expect(await listen('engine-1.internal:7000')).toBe('engine-1.internal:7000');
    expect(await listen('engine-1')).toMatch(/^engine-1:\d+$/);
    expect(await listen('[::1]')).toMatch(/^\[::1\]:\d+$/);
  });
});
