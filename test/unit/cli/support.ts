import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import type {
  ReadOnlyEngine,
  ReadOptions,
  ReadRecord,
  RecordReader,
  StreamInfo,
} from '../../../src/engine/api.ts';
import type { Context } from '../../../src/cli/context.ts';
import type { ByteSink } from '../../../src/cli/output.ts';
import { runCommand } from '../../../src/cli/run.ts';
import { Shutdown } from '../../../src/cli/shutdown.ts';
import type { EngineDoor } from '../../../src/cli/store.ts';

export interface Recorder extends ByteSink {
  text(): string;
}

/** Remembers what is written to it. */
export function recorder(properties: { isTTY?: boolean; columns?: number } = {}): Recorder {
  const chunks: Buffer[] = [];
  const sink = Object.assign(new EventEmitter(), properties, {
    destroyed: false,
    write: (data: string | Uint8Array) => {
      chunks.push(Buffer.from(data as Uint8Array));
      return true;
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
  });
  return sink;
}

export function record(seqNum: number, body: string | Uint8Array, more: Partial<ReadRecord> = {}) {
  return {
    seqNum,
    timestamp: 1_000 + seqNum,
    body: typeof body === 'string' ? new TextEncoder().encode(body) : body,
    headers: [],
    ...more,
  } satisfies ReadRecord;
}

export type FakeStreams = Readonly<Record<string, readonly (ReadRecord | Error)[]>>;

/** Streams in memory for tests of what is printed; an error stands for a failure at that place. */
export function fakeReader(streams: FakeStreams, pageSize = 1_000): ReadOnlyEngine {
  return {
    star: 'main',
    listStreams: async ({ prefix = '', startAfter = '', limit = pageSize } = {}) => {
      const names = Object.keys(streams)
        .sort()
        .filter((name) => name.startsWith(prefix) && name > startAfter);
      const shown = names.slice(0, Math.min(limit, pageSize));
      return { streams: shown.map(infoOf), more: shown.length < names.length };
    },
    status: async () => ({ star: 'main', epochs: [], limbo: [] }),
    slots: async () => [],
    read: (name, options) => fakeRecords(streams[name] ?? [], options ?? {}),
    close: async () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

function infoOf(name: string): StreamInfo {
  const config = {
    mode: 'any',
    storageClass: 'express',
    timestamping: 'client-prefer',
    uncapped: false,
  } as const;
  return { name, id: name.padEnd(4, '0'), createdAtMillis: 0, config };
}

function fakeRecords(all: readonly (ReadRecord | Error)[], options: ReadOptions): RecordReader {
  const { from = 0, limit = Number.POSITIVE_INFINITY } = options;
  async function* batches() {
    let left = limit;
    for (const one of all) {
      if (one instanceof Error) throw one;
      if (one.seqNum < from || left-- <= 0) continue;
      yield [one];
    }
  }
  return {
    batches,
    async *[Symbol.asyncIterator]() {
      for await (const batch of batches()) yield* batch;
    },
  };
}

export interface FakeRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line in this process over fake streams. */
export async function runWith(
  args: readonly string[],
  door: Partial<EngineDoor> = {},
  more: Partial<Context> = {},
): Promise<FakeRun> {
  const refuse = () => Promise.reject(new Error('not in this test'));
  const stdout = recorder();
  const stderr = recorder();
  const code = await runCommand(args, '1.2.3', {
    door: {
      openEngine: refuse,
      openReader: refuse,
      fence: refuse,
      explain: refuse,
      release: refuse,
      ...door,
    },
    stdin: Readable.from([]),
    stdout,
    stderr,
    env: {},
    shutdown: new Shutdown(() => undefined),
    ...more,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}
