/**
 * An S3 server that stores next to nothing, in a process of its own, for benchmarks: it reads HTTP by
 * itself, with what the adapter sends in mind, since a general server would be slower than its clients.
 * Keys are remembered, so that creations conflict; bodies are not, beyond their first bytes.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { SinkCommand, SinkReport, SinkService } from './_s3-sink.ts';

/** What a creation that finds an object, and the identity of a bucket, need of it. */
const KEPT_BYTES = 512;
/** Objects whose first bytes are kept, the last ones: later readers of older ones get zeros. */
const KEPT_OBJECTS = 1_024;
const END_OF_HEAD = '\r\n\r\n';

interface StoredObject {
  readonly sizeBytes: number;
  head: Buffer | undefined;
}

class Bucket {
  readonly objects = new Map<string, StoredObject>();
  readonly #kept: StoredObject[] = [];
  #next = 0;

  create(key: string, sizeBytes: number, head: Buffer): boolean {
    if (this.objects.has(key)) return false;
    const object: StoredObject = { sizeBytes, head };
    this.objects.set(key, object);
    // Whole small objects stay: identities.
    if (sizeBytes <= KEPT_BYTES) return true;
    const forgotten = this.#kept[this.#next];
    if (forgotten !== undefined) forgotten.head = undefined;
    this.#kept[this.#next] = object;
    this.#next = (this.#next + 1) % KEPT_OBJECTS;
    return true;
  }
}

interface Request {
  readonly method: string;
  readonly bucket: string;
  readonly key: string;
  readonly query: string;
  readonly isCreation: boolean;
  readonly range: readonly [number, number] | undefined;
  readonly bodyBytes: number;
  /** What is kept of the body. */
  head: Buffer;
}

const buckets = new Map<string, Bucket>();
let services: readonly SinkService[] = [];
let requests = 0;
let puts = 0;
let slowCounter = 0;

function serve(socket: Socket): void {
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  let pending: Buffer | undefined;
  let request: Request | undefined;
  let left = 0;
  socket.on('data', (chunk: Buffer) => {
    let rest = chunk;
    while (rest.byteLength > 0) {
      if (request === undefined) {
        if (pending !== undefined) rest = Buffer.concat([pending, rest]);
        const end = rest.indexOf(END_OF_HEAD);
        if (end < 0) {
          pending = rest;
          return;
        }
        pending = undefined;
        request = parse(rest.toString('latin1', 0, end + 2));
        left = request.bodyBytes;
        rest = rest.subarray(end + END_OF_HEAD.length);
      }
      const part = rest.byteLength > left ? rest.subarray(0, left) : rest;
      keep(request, part);
      left -= part.byteLength;
      rest = rest.subarray(part.byteLength);
      if (left > 0) return;
      arrived(socket, request);
      request = undefined;
    }
  });
}

function keep(request: Request, part: Buffer): void {
  const wanted = request.method === 'POST' ? Infinity : KEPT_BYTES;
  if (part.byteLength === 0 || request.head.byteLength >= wanted) return;
  const room = Math.min(wanted - request.head.byteLength, part.byteLength);
  request.head = Buffer.concat([request.head, part.subarray(0, room)]);
}

const NOTHING = Buffer.alloc(0);

function parse(head: string): Request {
  const [, method, target] = /^(\w+) (\S+) /.exec(head)!;
  const [path, query = ''] = target!.split('?');
  const slash = path!.indexOf('/', 1);
  const bucket = path!.slice(1, slash < 0 ? undefined : slash);
  const range = /\r\nrange: bytes=(\d+)-(\d+)\r\n/i.exec(head);
  return {
    method: method!,
    bucket,
    key: slash < 0 ? '' : path!.slice(slash + 1),
    query,
    isCreation: head.includes('\r\nif-none-match: *\r\n'),
    range: range === null ? undefined : [Number(range[1]), Number(range[2])],
    bodyBytes: Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0),
    head: NOTHING,
  };
}

function arrived(socket: Socket, request: Request): void {
  requests++;
  if (request.method === 'PUT') puts++;
  const delayMillis = delayOf(request.bucket);
  if (delayMillis === 0) socket.write(answer(request));
  else setTimeout(() => socket.destroyed || socket.write(answer(request)), delayMillis);
}

/** Slow requests are spread like random ones, and are the same ones in every run. */
function delayOf(bucket: string): number {
  const service = services.find(({ buckets: names }) => names.includes(bucket));
  if (service === undefined) return 0;
  slowCounter = (Math.imul(slowCounter, 1_664_525) + 1_013_904_223) >>> 0;
  const isSlow = slowCounter / 2 ** 32 < (service.slowShare ?? 0);
  return isSlow ? service.slowMillis! : service.millis;
}

const CREATED = 'HTTP/1.1 200 OK\r\netag: "0"\r\ncontent-length: 0\r\n\r\n';

function answer(request: Request): string | Buffer {
  const { method, key, query } = request;
  const bucket = bucketOf(request.bucket);
  if (key === '') return answerOfBucket(bucket, method, query, request);
  if (method === 'PUT') {
    const isNew = bucket.create(key, request.bodyBytes, request.head);
    return isNew || !request.isCreation ? CREATED : problem(412, 'PreconditionFailed');
  }
  if (method === 'DELETE') {
    bucket.objects.delete(key);
    return 'HTTP/1.1 204 No Content\r\n\r\n';
  }
  const object = bucket.objects.get(key);
  return object === undefined ? problem(404, 'NoSuchKey') : answerOfObject(object, request);
}

function bucketOf(name: string): Bucket {
  let bucket = buckets.get(name);
  if (bucket === undefined) buckets.set(name, (bucket = new Bucket()));
  return bucket;
}

function answerOfObject({ sizeBytes, head }: StoredObject, { range }: Request): Buffer {
  const start = range?.[0] ?? 0;
  const end = Math.min(sizeBytes, (range?.[1] ?? Infinity) + 1);
  const body = Buffer.alloc(end - start);
  head?.copy(body, 0, start);
  const line = `HTTP/1.1 206 Partial Content\r\ncontent-range: bytes ${start}-${end - 1}/${sizeBytes}\r\n`;
  return Buffer.concat([Buffer.from(`${line}content-length: ${body.byteLength}\r\n\r\n`), body]);
}

function answerOfBucket(
  bucket: Bucket,
  method: string,
  query: string,
  request: Request,
): string | Buffer {
  const parameters = new URLSearchParams(query);
  if (parameters.has('versioning')) return xml(200, '<VersioningConfiguration/>');
  if (parameters.has('lifecycle')) return problem(404, 'NoSuchLifecycleConfiguration');
  if (parameters.has('list-type')) {
    const prefix = parameters.get('prefix') ?? '';
    const after = parameters.get('start-after') ?? '';
    const keys = [...bucket.objects.keys()].filter((key) => key.startsWith(prefix) && key > after);
    const page = keys.sort().slice(0, Number(parameters.get('max-keys') ?? 1_000));
    const entries = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('');
    const isTruncated = `<IsTruncated>${keys.length > page.length}</IsTruncated>`;
    return xml(200, `<ListBucketResult>${isTruncated}${entries}</ListBucketResult>`);
  }
  if (parameters.has('delete') && method === 'POST') {
    const keys = [...request.head.toString().matchAll(/<Key>([^<]*)<\/Key>/g)];
    for (const [, key] of keys) bucket.objects.delete(key!);
    const entries = keys.map(([, key]) => `<Deleted><Key>${key}</Key></Deleted>`).join('');
    return xml(200, `<DeleteResult>${entries}</DeleteResult>`);
  }
  return problem(501, 'NotImplemented');
}

function problem(status: number, code: string): string {
  return xml(status, `<Error><Code>${code}</Code><Message>no</Message></Error>`);
}

function xml(status: number, text: string): string {
  return `HTTP/1.1 ${status} x\r\ncontent-type: application/xml\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

function report(): SinkReport {
  const { user, system } = process.cpuUsage();
  return { requests, puts, cpuSeconds: (user + system) / 1e6 };
}

const server = createServer(serve);
process.on('message', (command: SinkCommand) => {
  if (command.kind === 'serve') services = command.services;
  if (command.kind === 'forget') buckets.clear();
  process.send!(report());
});
// Whoever started it has ended.
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () =>
  process.send!({ port: (server.address() as AddressInfo).port }),
);
