/** Records from files and standard input, in batches that the engine takes. */
import { createReadStream } from 'node:fs';
import { access, constants } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import type { AppendRecord } from '../../engine/api.ts';
import { meteredBytes } from '../../format/records.ts';
import { EngineError } from '../../lib/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { LineSplitter, type Line } from './line-splitter.ts';
import { recordFromJson } from './ndjson.ts';

export const INPUT_FORMATS = ['lines', 'ndjson'] as const;
export type InputFormat = (typeof INPUT_FORMATS)[number];

export interface InputBatch {
  readonly records: readonly AppendRecord[];
  readonly bodyBytes: number;
}

export interface InputOptions {
  readonly format: InputFormat;
  readonly batchRecords: number;
  readonly signal: AbortSignal;
}

/** One input: a name for messages, and its chunks. */
export interface Source {
  readonly name: string;
  readonly chunks: (signal: AbortSignal) => AsyncIterable<Uint8Array>;
}

/** JSON escapes make a line longer than its record: six characters a control character at worst. */
const MAX_LINE_BYTES: Readonly<Record<InputFormat, number>> = {
  lines: LIMITS.recordBytes,
  ndjson: 8 * LIMITS.recordBytes,
};
const CHUNK_BYTES = 256 * 1024;

/**
 * All inputs are looked at before anything is written: one that is missing must not be found after
 * the others were appended.
 *
 * @throws EngineError INVALID_OPTION naming the file
 */
export async function checkReadable(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await access(path, constants.R_OK).catch((cause: unknown) => {
      throw unreadable(path, cause);
    });
  }
}

export function fileSource(path: string): Source {
  return { name: path, chunks: (signal) => readFileChunks(path, signal) };
}

export function streamSource(name: string, stream: Readable): Source {
  return {
    name,
    chunks: (signal) => addAbortSignal(signal, stream) as AsyncIterable<Uint8Array>,
  };
}

async function* readFileChunks(path: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES, signal })) {
      yield chunk as Uint8Array;
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(path: string, cause: unknown): EngineError {
  return new EngineError('INVALID_OPTION', 'an input cannot be read', {
    cause,
    details: { option: 'file', value: path },
  });
}

/**
 * Reads the sources one after the other. A batch ends when it is full and at the end of each chunk:
 * lines that trickle in through a pipe do not wait for company. Ends early when the signal fires.
 */
export async function* inputBatches(
  sources: readonly Source[],
  options: InputOptions,
): AsyncGenerator<InputBatch> {
  try {
    for (const source of sources) yield* batchesOf(source, options);
  } catch (error) {
    // A stopped run reads no further; what it read before was handed out.
    if (!options.signal.aborted) throw error;
  }
}

async function* batchesOf(source: Source, options: InputOptions): AsyncGenerator<InputBatch> {
  const splitter = new LineSplitter(source.name, MAX_LINE_BYTES[options.format]);
  const batcher = new Batcher(source.name, options);
  for await (const chunk of source.chunks(options.signal)) {
    yield* batcher.batches(splitter.push(chunk));
    if (options.signal.aborted) return;
  }
  yield* batcher.batches(splitter.end());
}

class Batcher {
  readonly #input: string;
  readonly #options: InputOptions;

  constructor(input: string, options: InputOptions) {
    this.#input = input;
    this.#options = options;
  }

  *batches(lines: readonly Line[]): Generator<InputBatch> {
    let records: AppendRecord[] = [];
    let metered = 0;
    let bodyBytes = 0;
    for (const line of lines) {
      const record = this.#record(line);
      const bytes = meteredBytes(record.body ?? '', record.headers ?? []);
      this.#checkSize(line, bytes);
      const full = records.length === this.#options.batchRecords;
      if (records.length > 0 && (full || metered + bytes > LIMITS.batchBytes)) {
        yield { records, bodyBytes };
        records = [];
        metered = 0;
        bodyBytes = 0;
      }
      records.push(record);
      metered += bytes;
      bodyBytes += meteredBytes(record.body ?? '', []) - meteredBytes('', []);
    }
    if (records.length > 0) yield { records, bodyBytes };
  }

  #record({ bytes, number }: Line): AppendRecord {
    if (this.#options.format === 'lines') return { body: bytes };
    return recordFromJson(bytes, this.#input, number);
  }

  #checkSize({ number }: Line, bytes: number): void {
    if (bytes <= LIMITS.recordBytes) return;
    throw new EngineError('RECORD_TOO_LARGE', 'a record of the input is too large', {
      details: { input: this.#input, line: number, bytes, max: LIMITS.recordBytes },
    });
  }
}
