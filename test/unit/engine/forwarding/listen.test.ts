/** The option `listen` through the public door. */
import { afterEach, describe, expect, test } from 'vitest';
import {
  createEngine,
  EngineError,
  memoryComponents,
  openReader,
  type Engine,
  type Log,
} from '../../../../src/index.ts';

const TOKEN = 'sixteen bytes of hush-hush';
const engines: Engine[] = [];

afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

async function open(star: string, id: string, listen: unknown, log?: Log): Promise<Engine> {
  const components = memoryComponents({ id, buckets: 1 });
  const engine = await createEngine({
    components,
    settings: { star },
    listen: listen as never,
    ...(log === undefined ? {} : { log }),
  });
  engines.push(engine);
  return engine;
}

async function errorOf(run: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await run.then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown,
  );
  if (EngineError.is(error)) return error;
  throw error;
}

describe('listen', () => {
  const refused: [string, unknown, string][] = [
    ['no token', {}, 'listen.token'],
    ['a token that is no text', { token: 7 }, 'listen.token'],
    ['a short token', { token: 'hush-of-15-byte' }, 'listen.token'],
    ['a long token', { token: 's'.repeat(257) }, 'listen.token'],
    ['the token alone', TOKEN, 'listen'],
    ['a port that is none', { token: TOKEN, port: 70_000 }, 'listen.port'],
    ['a host that is none', { token: TOKEN, host: '' }, 'listen.host'],
    ['an unknown option', { token: TOKEN, tokens: TOKEN }, 'listen.tokens'],
    ['an address that is none', { token: TOKEN, advertise: 'http://here/' }, 'listen.advertise'],
    ['everywhere, and no address', { token: TOKEN, host: '0.0.0.0' }, 'listen.advertise'],
  ];

  test.each(refused)('%s is refused, and no secret printed', async (_, listen, option) => {
    const error = await errorOf(open('a', 'refused', listen));
    expect([error.code, error.details['option']]).toEqual(['INVALID_OPTION', option]);
    expect(JSON.stringify(error)).not.toMatch(/hush|ssss/);
  });

  test('only engines that write listen', async () => {
    const components = memoryComponents({ id: 'reader', buckets: 1 });
    const options = { components, listen: { token: TOKEN } };
    expect((await errorOf(openReader(options as never))).code).toBe('INVALID_OPTION');
  });

  test('two engines share a stream; another token is refused and never logged', async () => {
    const lines: string[] = [];
    const write = (fields: object, message: string): void =>
      void lines.push(JSON.stringify(fields) + message);
    const log: Log = { debug: write, info: write, warn: write, error: write };
    const leader = await open('leader', 'shared', { token: TOKEN }, log);
    await leader.open('orders');
    const follower = await open('follower', 'shared', { token: TOKEN, host: '127.0.0.1' }, log);
    const stream = await follower.open('orders');
    expect((await stream.append([{ body: 'x' }])).start.seqNum).toBe(0);
    expect(follower.metrics().gauges['forward.connections']).toBe(1);
    expect(leader.metrics().gauges['peers.connections']).toBe(1);
    const stranger = await open('stranger', 'shared', { token: 'another hush of sixteen' }, log);
    const error = await errorOf(stranger.open('orders'));
    expect([error.code, error.kind]).toEqual(['PEER_REFUSED', 'invalid']);
    expect(lines.join()).toContain('a peer was refused');
    expect(lines.join() + JSON.stringify(error)).not.toMatch(/hush/);
  });

  test('a port in use is refused, and nothing stays open', async () => {
    const first = await open('first', 'ports', { token: TOKEN });
    await first.open('orders');
    const second = await open('second', 'ports', undefined);
    const { address } = (await errorOf(second.open('orders'))).details;
    const port = Number(String(address).split(':').at(-1));
    const error = await errorOf(open('third', 'ports', { token: TOKEN, port }));
    expect([error.code, error.details['port']]).toEqual(['INVALID_OPTION', port]);
    // Nothing was registered: the star is free.
    await open('third', 'ports', { token: TOKEN });
  });
});
