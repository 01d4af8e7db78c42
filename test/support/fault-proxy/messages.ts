/** Requests and answers as the proxy passes them on: whole bodies, headers as they came. */
import { request as send, type Agent, type IncomingMessage, type ServerResponse } from 'node:http';
import type { ScriptedAnswer } from '../s3/fault-rules.ts';

export interface PassedAnswer {
  readonly status: number;
  /** Names and values by turns, as in `rawHeaders`. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** Larger than every object of a test. */
const BODY_BYTES_MAX = 64 << 20;
/** About one connection, so they end with it; the length is that of the body that was read. */
const OF_CONNECTION = new Set([
  'connection',
  'keep-alive',
  'expect',
  'transfer-encoding',
  'content-length',
]);

export async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.byteLength;
    if (size > BODY_BYTES_MAX) throw new Error(`a body of more than ${BODY_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export async function passOn(
  { method, url, rawHeaders }: IncomingMessage,
  body: Buffer,
  { target, agent }: { readonly target: URL; readonly agent: Agent },
): Promise<PassedAnswer> {
  const hasBody = body.byteLength > 0 || method === 'PUT' || method === 'POST';
  const headers = [
    ...endToEnd(rawHeaders),
    ...(hasBody ? ['content-length', String(body.byteLength)] : []),
  ];
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const { hostname: host, port } = target;
    send({ agent, host, port, method, path: url, headers }, resolve)
      .once('error', reject)
      .end(body);
  });
  const answer = await bytesOf(message);
  return { status: message.statusCode!, headers: endToEnd(message.rawHeaders), body: answer };
}

/** What S3 answers when something is wrong, or whatever else the rule says. */
export function scriptedAnswer(answer: ScriptedAnswer): PassedAnswer {
  const { status, code, more = '', headers = {} } = answer;
  const xml = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>as the test wants it</Message>${more}</Error>`;
  const type = code === undefined ? [] : ['content-type', 'application/xml'];
  return {
    status,
    headers: [...type, ...Object.entries(headers).flat()],
    body: Buffer.from(code === undefined ? (answer.body ?? '') : xml),
  };
}

/** `half` ends the connection in the middle of the body, `wrong` changes one byte of it. */
export function sendAnswer(
  response: ServerResponse,
  { status, headers, body }: PassedAnswer,
  shape: 'whole' | 'half' | 'wrong',
): void {
  const hasBody = status !== 204 && status !== 304;
  const length = hasBody ? ['content-length', String(body.byteLength)] : [];
  response.writeHead(status, [...headers, ...length]);
  if (shape === 'half') {
    response.write(body.subarray(0, body.byteLength >> 1), () => response.socket?.destroy());
    return;
  }
  const sent = Buffer.from(body);
  if (shape === 'wrong' && sent.byteLength > 0) sent[0] = sent[0]! ^ 1;
  response.end(hasBody ? sent : undefined);
}

function endToEnd(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at]!, rawHeaders[at + 1]!];
    if (!OF_CONNECTION.has(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}
