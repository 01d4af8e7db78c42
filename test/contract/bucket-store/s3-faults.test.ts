/** What the S3 store makes of everything that can happen between a request and its answer. */
import { inspect } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { S3BucketStore } from '../../../src/adapters/s3/bucket-store.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import type { CreateOutcome } from '../../../src/ports/bucket-store.ts';
import type { Fault, SeenRequest } from '../../support/s3/fault-rules.ts';
import type { S3Server } from '../../support/s3/server.ts';
import { bytesOf, expectUnknown, headOf, pattern } from './contract.ts';
import { expectTrueOutcomes } from './races.ts';
import { s3Fixture, type S3Fixture } from './s3-fixture.ts';

const KEY = 'main/7/42';
const BODY = pattern(1, 3_000);
const HTML = '<html><body><h1>Log in</h1></body></html>';

let fixture: S3Fixture;
let server: S3Server;
let store: S3BucketStore;

beforeEach(async () => {
  fixture = await s3Fixture({ timeoutMillis: 20_000 });
  server = fixture.server;
  store = await fixture.open();
});
afterEach(() => fixture.dispose());

const isPut = ({ method }: SeenRequest): boolean => method === 'PUT';
const isGet = ({ method }: SeenRequest): boolean => method === 'GET';

function once(fault: Fault, when: (request: SeenRequest) => boolean = isPut): void {
  server.faults.add({ when, times: 1, fault });
}

function html(status: number): Fault {
  return { kind: 'answer', status, body: HTML, headers: { 'content-type': 'text/html' } };
}

function isStored(): boolean {
  return server.bucket().objects.has(KEY);
}

function causeOf(outcome: { readonly kind: string }): EngineError {
  const { cause } = outcome as unknown as { cause: EngineError };
  expect(cause).toBeInstanceOf(EngineError);
  return cause;
}

describe('a creation whose outcome is open', () => {
  it.each<[string, Fault, boolean]>([
    ['the connection ends before', { kind: 'drop' }, false],
    ['the connection ends after it was stored', { kind: 'commit-then-reset' }, true],
    [
      'an error after it was stored',
      { kind: 'answer', status: 500, code: 'InternalError', commit: true },
      true,
    ],
    ['an error without a body', { kind: 'answer', status: 500 }, false],
    ['a conflict', { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' }, false],
    ['a time-out of the server', { kind: 'answer', status: 408, code: 'RequestTimeout' }, false],
    ['the same as 400', { kind: 'answer', status: 400, code: 'RequestTimeout' }, false],
    ['a body that arrived damaged', { kind: 'answer', status: 400, code: 'BadDigest' }, false],
    ['too many requests', { kind: 'answer', status: 429, code: 'TooManyRequests' }, false],
    ['SlowDown', { kind: 'answer', status: 503, code: 'SlowDown' }, false],
    [
      'SlowDown after it was stored',
      { kind: 'answer', status: 503, code: 'SlowDown', commit: true },
      true,
    ],
    ['a gateway without its server', html(502), false],
    ['a gateway that waited in vain', html(504), false],
    ['a page of a proxy as 200', html(200), false],
    ['a page of a proxy as 403', html(403), false],
    ['a page of a proxy as 404', html(404), false],
    ['200 without an ETag', { kind: 'answer', status: 200 }, false],
    ['204', { kind: 'answer', status: 204 }, false],
    [
      'an answer cut short',
      { kind: 'answer', status: 500, headers: { 'content-length': '900' }, body: 'x' },
      false,
    ],
  ])('%s', async (_, fault, stored) => {
    once(fault);
    const bytes = Buffer.from(BODY);
    const outcome = await store.createOnly(KEY, bytes);
    expectUnknown(outcome, 'BUCKET_UNAVAILABLE');
    expect(causeOf(outcome).sideEffects).toBe('possible');
    // Sent once: whoever asked decides about another time.
    expect(server.requestsFor(KEY)).toHaveLength(1);
    expect(isStored()).toBe(stored);
    const again = await store.createOnly(KEY, bytes);
    if (stored) expect(headOf(again)).toEqual(BODY.subarray(0, 256));
    else expect(again).toEqual({ kind: 'created' });
  });

  it('its own success met again is shown like anybody else’s', async () => {
    once({ kind: 'commit-then-reset' });
    expectUnknown(await store.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
    const again = await store.createOnly(KEY, BODY);
    expect(again).toMatchObject({ kind: 'exists', sizeBytes: BODY.byteLength });
  });

  it('is unknown when what holds the key cannot be read, or is gone by then', async () => {
    server.bucket().objects.set(KEY, Buffer.from(BODY));
    once({ kind: 'answer', status: 500, code: 'InternalError' }, isGet);
    expectUnknown(await store.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
    once({ kind: 'answer', status: 404, code: 'NoSuchKey' }, isGet);
    expectUnknown(await store.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
    once({ kind: 'truncate' }, isGet);
    expectUnknown(await store.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
    expect((await store.createOnly(KEY, BODY)).kind).toBe('exists');
  });

  it('ends in time when nothing answers, stored or not', async () => {
    const patient = await fixture.open({ timeoutMillis: 300 });
    for (const kind of ['stall', 'commit-then-stall'] as const) {
      once({ kind });
      expectUnknown(await patient.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
      expect(isStored()).toBe(kind === 'commit-then-stall');
    }
  });

  it('may be stored long after it was given up', async () => {
    const held = server.faults.hold(isPut);
    const controller = new AbortController();
    const creating = store.createOnly(KEY, BODY, { signal: controller.signal });
    await held.arrived;
    controller.abort();
    expectUnknown(await creating, 'ABORTED');
    expect(await store.readHead(KEY, 10)).toEqual({ kind: 'absent' });
    held.release();
    await expect.poll(isStored).toBe(true);
  });

  it('says when the server wants to be asked again', async () => {
    once({ kind: 'answer', status: 503, code: 'SlowDown', headers: { 'retry-after': '7' } });
    expect(causeOf(await store.createOnly(KEY, BODY)).retryAfterMillis).toBe(7_000);
  });
});

describe('a refusal', () => {
  const answer = (status: number, code: string, more: Partial<Fault> = {}): Fault =>
    ({ kind: 'answer', status, code, ...more }) as Fault;
  it.each<[string, Fault, string, object]>([
    [
      'no permission',
      answer(403, 'AccessDenied'),
      'BUCKET_REFUSED',
      { setting: 'permission', permission: 's3:PutObject' },
    ],
    ['no such bucket', answer(404, 'NoSuchBucket'), 'BUCKET_REFUSED', { setting: 'bucket' }],
    [
      'another region',
      answer(301, 'PermanentRedirect', {
        headers: { 'x-amz-bucket-region': 'eu-central-1', location: 'http://elsewhere.example/' },
      }),
      'BUCKET_REFUSED',
      { setting: 'region', region: 'test-region-1', expected: 'eu-central-1' },
    ],
    [
      'another region for now',
      answer(307, 'TemporaryRedirect', { headers: { location: 'http://elsewhere.example/' } }),
      'BUCKET_REFUSED',
      { setting: 'region' },
    ],
    [
      'another region in the signature',
      answer(400, 'AuthorizationHeaderMalformed', { more: '<Region>eu-central-1</Region>' }),
      'BUCKET_REFUSED',
      { setting: 'region', expected: 'eu-central-1' },
    ],
    [
      'a redirect of a proxy',
      { kind: 'answer', status: 302, headers: { location: 'http://portal.example/' } },
      'BUCKET_REFUSED',
      { setting: 'endpoint' },
    ],
    ['an unknown header', answer(501, 'NotImplemented'), 'BUCKET_REFUSED', { setting: 'endpoint' }],
    [
      'an unknown header, without a body',
      { kind: 'answer', status: 501 },
      'BUCKET_REFUSED',
      { setting: 'endpoint' },
    ],
    ['a bad request', answer(400, 'InvalidArgument'), 'BUCKET_REFUSED', { setting: 'endpoint' }],
    ['a quota', answer(403, 'QuotaExceeded'), 'BUCKET_FULL', { setting: 'quota' }],
    ['a full store', { kind: 'answer', status: 507 }, 'BUCKET_FULL', { setting: 'quota' }],
  ])('%s', async (_, fault, code, details) => {
    once(fault);
    const outcome = await store.createOnly(KEY, BODY);
    expect(outcome).toMatchObject({ kind: 'refused', cause: { code, details } });
    expect(causeOf(outcome).details).toMatchObject({ bucket: 'bucket', endpoint: server.endpoint });
    expect(isStored()).toBe(false);
    expect(server.requestsFor(KEY)).toHaveLength(1);
  });

  it('says by how much the clock is off', async () => {
    server.clockOffMillis = 20 * 60_000;
    const date = new Date(Date.now() + server.clockOffMillis).toUTCString();
    server.faults.add({
      fault: { kind: 'answer', status: 403, code: 'RequestTimeTooSkewed', headers: { date } },
    });
    const { details } = causeOf(await store.createOnly(KEY, BODY));
    expect(details).toMatchObject({ setting: 'clock' });
    expect(Number(details['offByMillis'])).toBeLessThan(-19 * 60_000);
    server.faults.clear();
    expect(causeOf(await store.createOnly(KEY, BODY)).details).toMatchObject({ setting: 'clock' });
  });
});

describe('reading', () => {
  beforeEach(() => {
    server.bucket().objects.set(KEY, Buffer.from(BODY));
  });

  it.each<[string, Fault]>([
    ['half of an answer', { kind: 'truncate' }],
    ['a missing bucket', { kind: 'answer', status: 404, code: 'NoSuchBucket' }],
    ['404 of a proxy', html(404)],
    ['404 without a body', { kind: 'answer', status: 404 }],
    ['a page of a proxy as 200', html(200)],
    ['a page of a proxy as 206', html(206)],
    [
      'another part than was asked for',
      {
        kind: 'answer',
        status: 206,
        body: 'x'.repeat(10),
        headers: { 'content-range': 'bytes 5-14/3000' },
      },
    ],
    [
      'fewer bytes than the range has',
      {
        kind: 'answer',
        status: 206,
        body: 'x'.repeat(9),
        headers: { 'content-range': 'bytes 0-9/3000' },
      },
    ],
    ['no permission', { kind: 'answer', status: 403, code: 'AccessDenied' }],
    ['an error', { kind: 'answer', status: 500, code: 'InternalError' }],
    ['the end of the connection', { kind: 'drop' }],
    [
      'a range that is not beyond the end',
      {
        kind: 'answer',
        status: 416,
        code: 'InvalidRange',
        headers: { 'content-range': 'bytes */3000' },
      },
    ],
  ])('%s is unknown, never absent', async (_, fault) => {
    once(fault, isGet);
    const outcome = await store.readHead(KEY, 10);
    expect(outcome.kind).toBe('unknown');
    expect(causeOf(outcome).sideEffects).toBe('none');
    expect(bytesOf(await store.readHead(KEY, 10))).toEqual(BODY.slice(0, 10));
  });

  it('finds the size where an answer beyond the end tells none', async () => {
    server.bucket().objects.set('empty/1', Buffer.alloc(0));
    const bare: Fault = { kind: 'answer', status: 416, code: 'InvalidRange' };
    once(bare, isGet);
    expect(await store.readRange(KEY, 5_000, 6_000)).toMatchObject({ sizeBytes: 3_000 });
    server.faults.add({ when: isGet, times: 2, fault: bare });
    expect(await store.readRange('empty/1', 5, 6)).toMatchObject({ kind: 'found', sizeBytes: 0 });
  });

  it('gives up an answer that stops in the middle, and its connection', async () => {
    const patient = await fixture.open({ timeoutMillis: 500 });
    once({ kind: 'trickle' }, isGet);
    expectUnknown(await patient.readHead(KEY, 1_000), 'BUCKET_UNAVAILABLE');
    const { connection } = server.requestsFor(KEY)[0]!;
    await expect.poll(() => server.open.has(connection), { timeout: 20_000 }).toBe(false);
    expect(bytesOf(await patient.readHead(KEY, 10))).toEqual(BODY.slice(0, 10));
  });

  it('gives up an answer that does not end', async () => {
    once({ kind: 'answer', status: 500, body: 'x'.repeat(4 << 20) }, isGet);
    expect((await store.readHead(KEY, 10)).kind).toBe('unknown');
    expect(bytesOf(await store.readHead(KEY, 10))).toEqual(BODY.slice(0, 10));
  });
});

describe('deletions and lists', () => {
  it('of which the answer is odd or missing are unknown', async () => {
    await store.createOnly(KEY, BODY);
    for (const fault of [html(200), html(403), { kind: 'drop' } as Fault]) {
      once(fault, () => true);
      expect((await store.delete(KEY)).kind).toBe('unknown');
      once(fault, () => true);
      expect((await store.deleteMany([KEY]))[0]!.kind).toBe('unknown');
      once(fault, () => true);
      expect((await store.list('')).kind).toBe('unknown');
    }
    const part =
      '<DeleteResult><Deleted><Key>a/1</Key></Deleted><Error><Key>a/2</Key><Code>InternalError</Code></Error></DeleteResult>';
    once({ kind: 'answer', status: 200, body: part }, () => true);
    const kinds = (await store.deleteMany(['a/1', 'a/2'])).map(({ kind }) => kind);
    expect(kinds).toEqual(['deleted', 'unknown']);
    once({ kind: 'truncate' }, () => true);
    expect((await store.list('')).kind).toBe('unknown');
  });

  it('name for each key of a batch why it stays', async () => {
    const keys = ['a/1', 'a/2', 'a/3'];
    for (const key of keys) await store.createOnly(key, BODY);
    server.denied.add('s3:DeleteObject a/2');
    const outcomes = await store.deleteMany(keys);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['deleted', 'unknown', 'deleted']);
    const { code, details, retryable } = causeOf(outcomes[1]!);
    expect({ code, retryable }).toEqual({ code: 'BUCKET_REFUSED', retryable: false });
    expect(details).toMatchObject({ setting: 'permission', permission: 's3:DeleteObject' });
    expect([...server.bucket().objects.keys()]).toEqual(['a/2']);
  });

  it.each([
    ['SlowDown', 'unknown', 'bucket asks for fewer requests'],
    ['InternalError', 'unknown', 'bucket failed'],
    ['NoSuchKey', 'absent', ''],
  ])('read %s of one key as the answer to one deletion', async (s3Code, kind, summary) => {
    const entry = `<Error><Key>a/1</Key><Code>${s3Code}</Code></Error>`;
    once(
      { kind: 'answer', status: 200, body: `<DeleteResult>${entry}</DeleteResult>` },
      () => true,
    );
    const [outcome] = await store.deleteMany(['a/1']);
    expect(outcome!.kind).toBe(kind);
    if (kind === 'unknown') {
      const { message, details, retryable } = causeOf(outcome!);
      expect(message).toContain(summary);
      expect({ s3Code: details['s3Code'], retryable }).toEqual({ s3Code, retryable: true });
    }
  });
});

describe('credentials', () => {
  it('are asked for again once the server calls them expired', async () => {
    let asked = 0;
    const current = { ...server.credentials, sessionToken: 'new' };
    const renewed = await fixture.open({
      credentials: async () =>
        asked++ === 0 ? { ...current, sessionToken: 'old', expiresAtMillis: undefined } : current,
    });
    server.credentials = current;
    once({ kind: 'answer', status: 400, code: 'ExpiredToken' });
    const outcome = await renewed.createOnly(KEY, BODY);
    expectUnknown(outcome, 'BUCKET_UNAVAILABLE');
    expect(causeOf(outcome).details).toMatchObject({ setting: 'credentials' });
    await expect
      .poll(
        async () => {
          once(
            { kind: 'answer', status: 400, code: 'ExpiredToken' },
            (request) => request.headers['x-amz-security-token'] === 'old',
          );
          return (await renewed.createOnly(KEY, BODY)).kind;
        },
        { interval: 300 },
      )
      .toBe('created');
    expect(asked).toBe(2);
  });
});

describe('the way to the server', () => {
  it('has one request at a time on a connection', async () => {
    const held = Array.from({ length: 6 }, () => server.faults.hold(isPut));
    const creating = held.map((_, index) => store.createOnly(`held/${index}`, BODY));
    await Promise.all(held.map(({ arrived }) => arrived));
    expect(new Set(server.log.map(({ connection }) => connection)).size).toBe(6);
    for (const { release } of held) release();
    expect(await Promise.all(creating)).toEqual(held.map(() => ({ kind: 'created' })));
    // And they are used again; one that has just answered rests for a turn.
    for (let round = 0; round < 5; round++) {
      await Promise.all(held.map((_, index) => store.createOnly(`again/${round}/${index}`, BODY)));
    }
    const connections = new Set(server.log.map(({ connection }) => connection));
    expect(connections.size).toBeLessThanOrEqual(12);
  });

  it.each<[string, Record<string, string>]>([
    ['soon', {}],
    ['before the server does', { 'keep-alive': 'timeout=3' }],
  ])('is closed %s when idle', async (_, headers) => {
    const keeping = await s3Fixture({}, { keepAliveMillis: 0 });
    try {
      const idle = await keeping.open();
      keeping.server.faults.add({
        fault: { kind: 'answer', status: 404, code: 'NoSuchKey', headers },
      });
      expect(await idle.readHead(KEY, 10)).toEqual({ kind: 'absent' });
      expect(keeping.server.open.size).toBe(1);
      // The server itself would keep it for ever.
      await expect.poll(() => keeping.server.open.size, { timeout: 20_000 }).toBe(0);
    } finally {
      await keeping.dispose();
    }
  });

  it.each<[string, (wide: S3BucketStore, key: string) => Promise<{ readonly kind: string }>]>([
    ['creations', (wide, key) => wide.createOnly(key, BODY)],
    ['reads', (wide, key) => wide.readHead(key, 10)],
    ['deletions', (wide, key) => wide.delete(key)],
    ['lists', (wide, key) => wide.list(`${key}/`)],
  ])('narrows for %s when the server has too much to do, and widens again', async (_, ask) => {
    const widths = { concurrentCreates: 8, concurrentReads: 8 };
    const wide = await fixture.open({ ...widths, hedgePercent: 0 });
    const slow: Fault = { kind: 'answer', status: 503, code: 'SlowDown' };
    for (let round = 0; round < 3; round++) {
      once(slow, () => true);
      expect((await ask(wide, `slow/${round}`)).kind).toBe('unknown');
    }
    const most = async (name: string, length: number): Promise<number> => {
      let [atOnce, max] = [0, 0];
      const count = (): boolean => {
        max = Math.max(max, ++atOnce);
        return false;
      };
      server.faults.add({ when: count, fault: { kind: 'drop' } });
      server.faults.add({ fault: { kind: 'delay', millis: 20 } });
      const keys = Array.from({ length }, (_, index) => `${name}/${index}`);
      await Promise.all(keys.map((key) => ask(wide, key).then(() => atOnce--)));
      server.faults.clear();
      return max;
    };
    expect(await most('narrow', 8)).toBeLessThan(8);
    expect(await most('wide', 80)).toBe(8);
  });

  it('is left alone by a server that answers before it has read', async () => {
    const bytes = new Uint8Array(16 << 20).fill(1);
    const early: Fault = { kind: 'answer-early', status: 503, code: 'SlowDown' };
    once(early);
    expectUnknown(await store.createOnly(KEY, bytes), 'BUCKET_UNAVAILABLE');
    bytes.fill(2);
    expect(await store.createOnly(KEY, bytes)).toEqual({ kind: 'created' });
    await expect.poll(() => server.arriving).toBe(0);
    expect(server.lateParts.every((part) => part.every((byte) => byte === 1))).toBe(true);
    expect(
      server
        .bucket()
        .objects.get(KEY)!
        .every((byte) => byte === 2),
    ).toBe(true);
  });

  it('never carries bytes that the caller wrote after the answer', async () => {
    const unsigned = await fixture.open({ signsPayload: false });
    for (let round = 0; round < 15; round++) {
      const bytes = new Uint8Array(4 << 20).fill(round);
      const controller = new AbortController();
      const key = `memory/${round}`;
      const creating = unsigned.createOnly(key, bytes, { signal: controller.signal });
      await new Promise((resolve) => setTimeout(resolve, round));
      controller.abort();
      await creating;
      bytes.fill(0xff);
    }
    await expect.poll(() => server.arriving).toBe(0);
    for (const [key, object] of server.bucket().objects) {
      expect(object.every((byte) => byte === Number(key.split('/')[1]))).toBe(true);
    }
  });
});

describe('secrets', () => {
  it('are in no error', async () => {
    server.credentials = { ...server.credentials, sessionToken: 'token-that-is-secret' };
    const { secretAccessKey, sessionToken } = server.credentials;
    const wrong = await fixture.open({
      credentials: async () => ({
        accessKeyId: 'AKTEST',
        secretAccessKey: 'wrong-secret',
        sessionToken,
      }),
    });
    const errors = [causeOf(await wrong.createOnly(KEY, BODY))];
    for (const fault of [{ kind: 'drop' }, html(500), { kind: 'stall' }] as Fault[]) {
      once(fault, () => true);
      const signal = AbortSignal.timeout(300);
      errors.push(causeOf(await store.createOnly(KEY, BODY, { signal })));
    }
    for (const error of errors) {
      const text = inspect(error, { depth: 20, showHidden: true }) + JSON.stringify(error);
      for (const secret of [secretAccessKey, sessionToken!, 'wrong-secret', 'Signature=']) {
        expect(text).not.toContain(secret);
      }
    }
  });
});

describe('any sequence of faults', () => {
  const fault = fc.constantFrom<Fault | undefined>(
    undefined,
    { kind: 'drop' },
    { kind: 'commit-then-reset' },
    { kind: 'truncate' },
    { kind: 'duplicate', afterMillis: 1 },
    { kind: 'delay', millis: 2 },
    { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' },
    { kind: 'answer', status: 412, code: 'PreconditionFailed' },
    { kind: 'answer', status: 500, code: 'InternalError', commit: true },
    { kind: 'answer', status: 503, code: 'SlowDown' },
    { kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' },
    { kind: 'answer', status: 404, code: 'NoSuchBucket' },
    { kind: 'answer', status: 301, code: 'PermanentRedirect' },
    html(200),
    html(404),
  );

  it('leaves each answer true', async () => {
    let run = 0;
    const other = await fixture.open();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fault, fc.boolean()), { minLength: 1, maxLength: 6 }),
        async (steps) => {
          const key = `run/${run++}`;
          server.faults.clear();
          for (const [one] of steps) {
            if (one !== undefined) once(one, (request) => request.key === key);
          }
          const bodies = steps.map((_, index) => pattern(run * 10 + index, 400 + index));
          const outcomes: CreateOutcome[] = await Promise.all(
            steps.map(([, left], index) => (left ? store : other).createOnly(key, bodies[index]!)),
          );
          const stored = server.bucket().objects.get(key);
          expectTrueOutcomes(bodies, outcomes, stored);
          server.faults.clear();
          const read = await other.readHead(key, 1_000);
          if (stored === undefined) expect(read).toEqual({ kind: 'absent' });
          else expect(Buffer.compare(bytesOf(read), stored)).toBe(0);
        },
      ),
      { numRuns: 150 },
    );
  });
});
