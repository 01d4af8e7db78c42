/** The fault proxy against a plain server that keeps bodies and says what it was asked. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nth } from '../../support/fault-proxy/nth.ts';
import { FaultProxy } from '../../support/fault-proxy/proxy.ts';
import { S3BucketStore } from '../../../src/adapters/s3/bucket-store.ts';
import { S3Server, TEST_REGION } from '../../support/s3/server.ts';
import type { Fault } from '../../support/s3/fault-rules.ts';

interface Got {
  readonly line: string;
  readonly host: string | undefined;
  readonly body: string;
}

let got: Got[];
let server: ReturnType<typeof createServer>;
let proxy: FaultProxy;
let client: Agent;

beforeEach(async () => {
  got = [];
  server = createServer((message, response) => {
    void bodyOf(message).then((body) => {
      got.push({ line: `${message.method} ${message.url}`, host: message.headers.host, body });
      response.writeHead(200, { 'x-from': 'server' }).end(`answer to ${message.url}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy = await FaultProxy.start(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  client = new Agent();
});
afterEach(async () => {
  await client.destroy();
  await proxy.close();
  server.closeAllConnections();
  server.close();
});

async function bodyOf(message: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of message.setEncoding('utf8')) text += chunk as string;
  return text;
}

async function put(key: string, body = 'body'): Promise<string> {
  return send('PUT', key, body);
}

async function send(method: 'PUT' | 'GET', key: string, body?: string, signal?: AbortSignal) {
  const url = `${proxy.endpoint}/bucket/${key}`;
  const options = { method, dispatcher: client, ...(signal === undefined ? {} : { signal }) };
  const answer = await request(url, body === undefined ? options : { ...options, body });
  return `${answer.statusCode} ${await answer.body.text()}`;
}

/** What the client got: an answer, or `reset`. */
async function outcome(answer: Promise<string>): Promise<string> {
  return answer.catch(() => 'reset');
}

const keysGot = (): string[] => got.map(({ line }) => line);
const isKey = (key: string) => (seen: { readonly key: string }) => seen.key === key;

describe('without a fault', () => {
  it('passes on line, headers, body and answer as they are', async () => {
    expect(await put('a/b%20c?x=1', 'text')).toBe('200 answer to /bucket/a/b%20c?x=1');
    const host = new URL(proxy.endpoint).host;
    expect(got).toEqual([{ line: 'PUT /bucket/a/b%20c?x=1', host, body: 'text' }]);
    expect(proxy.log).toMatchObject([
      { method: 'PUT', bucket: 'bucket', key: 'a/b c', serverStatus: 200, clientStatus: 200 },
    ]);
    expect(await send('GET', 'a')).toBe('200 answer to /bucket/a');
    expect(got[1]).toEqual({ line: 'GET /bucket/a', host, body: '' });
  });

  it('lets signatures of S3 stand', async () => {
    const s3 = await S3Server.start();
    const between = await FaultProxy.start(s3.endpoint);
    const store = new S3BucketStore({
      name: 'through',
      bucket: 'bucket',
      region: TEST_REGION,
      endpoint: between.endpoint,
      addressing: 'path',
      credentials: async () => s3.credentials,
    });
    expect(await store.probe()).toEqual({ kind: 'accepted' });
    expect(s3.log.map(({ status }) => status)).toContain(412);
    expect(s3.log.map(({ status }) => status)).not.toContain(403);
    await store.close();
    await between.close();
    await s3.close();
  });
});

describe('a fault', () => {
  it.each<[string, Fault, { client: string; sent: number }]>([
    ['drop', { kind: 'drop' }, { client: 'reset', sent: 0 }],
    ['commit then reset', { kind: 'commit-then-reset' }, { client: 'reset', sent: 1 }],
    ['half an answer', { kind: 'truncate' }, { client: 'reset', sent: 1 }],
    ['an answer', { kind: 'answer', status: 503, body: 'no' }, { client: '503 no', sent: 0 }],
    [
      'another answer',
      { kind: 'answer', status: 500, body: 'no', commit: true },
      { client: '500 no', sent: 1 },
    ],
    ['delay', { kind: 'delay', millis: 1 }, { client: '200 answer to /bucket/a', sent: 1 }],
    ['corruption', { kind: 'corrupt' }, { client: '200 `nswer to /bucket/a', sent: 1 }],
  ])('%s', async (_, fault, { client: expected, sent }) => {
    proxy.faults.add({ fault, times: 1 });
    expect(await outcome(put('a'))).toBe(expected);
    expect(got).toHaveLength(sent);
    expect(proxy.log[0]).toMatchObject({ sent: sent === 1 });
    expect(await put('b')).toBe('200 answer to /bucket/b');
  });

  it('answers errors as S3 does', async () => {
    const more = '<Region>elsewhere</Region>';
    proxy.faults.add({ fault: { kind: 'answer', status: 503, code: 'SlowDown', more } });
    const answer = await put('a');
    expect(answer).toContain('503 <?xml');
    expect(answer).toContain('<Code>SlowDown</Code>');
    expect(answer).toContain(more);
  });

  it('meets only the requests that it is for', async () => {
    const when = nth(2, ({ method, key }) => method === 'PUT' && key.startsWith('a'));
    proxy.faults.add({ when, fault: { kind: 'drop' } });
    const answers = [];
    for (const key of ['a1', 'b1', 'a2', 'a3', 'b2']) answers.push(await outcome(put(key)));
    expect(answers.map((answer) => answer.slice(0, 5))).toEqual([
      '200 a',
      '200 a',
      'reset',
      '200 a',
      '200 a',
    ]);
    expect(keysGot()).not.toContain('PUT /bucket/a2');
  });

  it.each(['commit-then-stall', 'stall'] as const)('%s: never answers', async (kind) => {
    proxy.faults.add({ fault: { kind }, times: 1 });
    const abort = new AbortController();
    const answer = outcome(send('PUT', 'a', 'body', abort.signal));
    await expect.poll(() => proxy.log).toHaveLength(1);
    if (kind === 'commit-then-stall') await expect.poll(() => proxy.log[0]!.serverStatus).toBe(200);
    expect(await put('b')).toBe('200 answer to /bucket/b');
    abort.abort();
    expect(await answer).toBe('reset');
    await expect.poll(() => proxy.log[0]!.isAbandoned).toBe(true);
    expect(keysGot()).toHaveLength(kind === 'stall' ? 1 : 2);
  });

  it('sends a request once more, later', async () => {
    proxy.faults.add({ fault: { kind: 'duplicate', afterMillis: 1 }, times: 1 });
    expect(await put('a')).toBe('200 answer to /bucket/a');
    await expect.poll(() => proxy.log[1]).toMatchObject({ isDuplicate: true, serverStatus: 200 });
    expect(keysGot()).toEqual(['PUT /bucket/a', 'PUT /bucket/a']);
  });

  it('holds a request, and lets it arrive though its client has gone', async () => {
    const { arrived, release } = proxy.faults.hold(isKey('a'));
    const abort = new AbortController();
    const answer = outcome(send('PUT', 'a', 'late', abort.signal));
    await arrived;
    abort.abort();
    expect(await answer).toBe('reset');
    expect(await put('b')).toBe('200 answer to /bucket/b');
    expect(keysGot()).toEqual(['PUT /bucket/b']);
    await expect.poll(() => proxy.log[0]!.isAbandoned).toBe(true);
    expect(proxy.inFlight.size).toBe(0);
    release();
    await expect.poll(() => proxy.log[0]!.serverStatus).toBe(200);
    expect(got.at(-1)).toMatchObject({ line: 'PUT /bucket/a', body: 'late' });
    expect(proxy.log[0]!.clientStatus).toBe(undefined);
  });
});

describe('a partition', () => {
  it('loses what a client gives up, and lets the rest through when it ends', async () => {
    expect(await put('before')).toContain('200');
    proxy.partition();
    const abort = new AbortController();
    const lost = outcome(send('PUT', 'lost', 'body', abort.signal));
    const patient = put('patient');
    await expect.poll(() => proxy.log).toHaveLength(3);
    abort.abort();
    expect(await lost).toBe('reset');
    await expect.poll(() => proxy.log.find(isKey('lost'))!.isAbandoned).toBe(true);
    expect(got).toHaveLength(1);
    proxy.heal();
    expect(await patient).toBe('200 answer to /bucket/patient');
    expect(keysGot()).toEqual(['PUT /bucket/before', 'PUT /bucket/patient']);
  });

  it('keeps answers back that were under way, of what the server has done', async () => {
    const { arrived, release } = proxy.faults.hold(isKey('a'));
    const answer = put('a');
    await arrived;
    proxy.partition();
    release();
    await expect.poll(() => proxy.log[0]!.serverStatus).toBe(200);
    expect(proxy.log[0]!.clientStatus).toBe(undefined);
    proxy.heal();
    expect(await answer).toBe('200 answer to /bucket/a');
  });
});

it('resets the client when the server is gone', async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  expect(await outcome(put('a'))).toBe('reset');
  expect(proxy.inFlight.size).toBe(0);
});
