import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inputBatches, streamSource, type InputBatch } from '../../../src/cli/records/input.ts';
import { LineSplitter } from '../../../src/cli/records/line-splitter.ts';
import { recordFromJson, recordToJson } from '../../../src/cli/records/ndjson.ts';
import type { AppendRecord, ReadRecord } from '../../../src/engine/api.ts';
import { LIMITS } from '../../../src/protocol/limits.ts';
import { record } from './support.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('lines', () => {
  it('are the same however the input is cut into chunks', () => {
    const chunks = fc.array(fc.stringMatching(/^[ab\n]{0,6}$/).map(bytes), { maxLength: 6 });
    fc.assert(
      fc.property(chunks, (parts) => {
        const splitter = new LineSplitter('x', 100);
        const lines = [...parts.flatMap((part) => splitter.push(part)), ...splitter.end()];
        const text = Buffer.concat(parts).toString();
        const expected = text.split('\n');
        if (expected.at(-1) === '') expected.pop();
        expect(lines.map((line) => Buffer.from(line.bytes).toString())).toEqual(expected);
        expect(lines.map((line) => line.number)).toEqual(expected.map((_, at) => at + 1));
      }),
    );
  });

  it('may not grow without end', () => {
    const splitter = new LineSplitter('in.txt', 10);
    splitter.push(bytes('short\nlong line'));
    expect(() => splitter.push(bytes(' that goes on'))).toThrow(
      'a line of the input is too long input=in.txt line=2 bytes=22 max=10',
    );
  });
});

describe('records as JSON', () => {
  const roundTrip = (one: ReadRecord): AppendRecord =>
    recordFromJson(bytes(recordToJson(one)), 'x', 1);

  it('survive the way out and in again', () => {
    const part = fc.uint8Array({ maxLength: 8 });
    const headers = fc.array(fc.tuple(part, part), { maxLength: 3 });
    fc.assert(
      fc.property(part, headers, (body, pairs) => {
        const back = roundTrip(record(3, body, { headers: pairs }));
        expect(Buffer.from(back.body as Uint8Array)).toEqual(Buffer.from(body));
        const backPairs = (back.headers ?? []).map((pair) => pair.map((one) => Buffer.from(one)));
        expect(backPairs).toEqual(pairs.map((pair) => pair.map((one) => Buffer.from(one))));
        expect(back.timestamp).toBe(1_003);
      }),
    );
  });

  it('may hold megabytes of base64: no pattern runs out of stack', () => {
    const line = (text: string): Uint8Array => bytes(`{"bodyBase64":"${text}"}`);
    const { body } = recordFromJson(line('A'.repeat(8_000_000)), 'x', 1);
    expect(body).toHaveLength(6_000_000);
    expect(() => recordFromJson(line(`${'A'.repeat(7_999_999)}!`), 'x', 1)).toThrow('base64');
  });

  it('are readable where the bytes are text', () => {
    expect(recordToJson(record(0, 'grüße', { headers: [[bytes('k'), bytes('v')]] }))).toBe(
      '{"seqNum":0,"timestamp":1000,"headers":[["k","v"]],"body":"grüße"}',
    );
    expect(recordToJson(record(0, Uint8Array.of(255)))).toBe(
      '{"seqNum":0,"timestamp":1000,"bodyBase64":"/w=="}',
    );
    const command = { kind: 'trim', trimPoint: 5 } as const;
    expect(recordToJson(record(1, '', { command }))).toBe(
      '{"seqNum":1,"timestamp":1001,"command":{"kind":"trim","trimPoint":5}}',
    );
  });

  it.each([
    ['{', 'line=7'],
    ['[]', 'problem='],
    ['{"bdy":"x"}', 'path=bdy'],
    ['{"body":1}', 'path=body'],
    ['{"body":"","bodyBase64":""}', 'exclude'],
    ['{"headers":[],"headersBase64":[]}', 'exclude'],
    ['{"bodyBase64":"*"}', 'base64'],
    ['{"headers":[["a"]]}', 'path=headers.0.1'],
    ['{"timestamp":-1}', 'path=timestamp'],
    ['{"timestamp":1.5}', 'path=timestamp'],
    ['{"command":{"kind":"trim"}}', 'path=command'],
  ])('%s is refused', (text, part) => {
    expect(() => recordFromJson(bytes(text), 'in.ndjson', 7)).toThrow(
      expect.objectContaining({
        code: 'INVALID_RECORD',
        message: expect.stringContaining(part) as string,
      }) as Error,
    );
  });
});

describe('batches of input', () => {
  async function batches(
    chunks: readonly string[],
    batchRecords = 3,
    signal = new AbortController().signal,
  ): Promise<InputBatch[]> {
    const source = streamSource('in', Readable.from(chunks.map((one) => Buffer.from(one))));
    const found: InputBatch[] = [];
    const options = { format: 'lines', batchRecords, signal } as const;
    for await (const batch of inputBatches([source], options)) found.push(batch);
    return found;
  }
  const sizes = (found: readonly InputBatch[]): number[] =>
    found.map(({ records }) => records.length);

  it('are full or end with a chunk', async () => {
    expect(sizes(await batches(['1\n2\n3\n4\n', '5\n', '6']))).toEqual([3, 1, 1, 1]);
    expect((await batches(['ab\nc\n']))[0]?.bodyBytes).toBe(3);
    expect(await batches([''])).toEqual([]);
  });

  it('stay within the bytes of a batch', async () => {
    const line = `${'x'.repeat(400 * 1024)}\n`;
    expect(sizes(await batches([line + line + line]))).toEqual([2, 1]);
  });

  it('name the line that is too large', async () => {
    const body = 'x'.repeat(LIMITS.recordBytes - 4);
    await expect(batches([`ok\n${body}\n`])).rejects.toThrow('line=2');
  });

  it('end when the run is stopped', async () => {
    const stop = new AbortController();
    stop.abort();
    expect(await batches(['1\n'], 3, stop.signal)).toEqual([]);
  });

  it('refuse a file that cannot be read', async () => {
    const { fileSource } = await import('../../../src/cli/records/input.ts');
    const options = {
      format: 'lines',
      batchRecords: 3,
      signal: new AbortController().signal,
    } as const;
    const read = inputBatches([fileSource('/nonexistent')], options);
    await expect(read.next()).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });
});
