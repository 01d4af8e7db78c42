/**
 * A process that embeds an engine and shares streams with other such processes: who leads a stream
 * serves it, the others forward. Started by the takeover demo, which kills the leader.
 */
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { toEngineError } from '../../lib/errors.ts';
import type { Log } from '../../ports/log.ts';
import { logTo } from '../context.ts';
import { LEASE_ENDED } from '../../../actors/star-observer.ts';
import { engineDoor } from '../door.ts';
import { failureOf } from '../load/child-failure.ts';
import { loadCorpus } from '../load/corpus.ts';
import { REPORT_FD } from '../load/writer-config.ts';
import { PEER_TOKEN, type MemberConfig } from './member-config.ts';
import { checkTails, produce, SharedStream } from './producer.ts';
import { encodeMemberReport, hostMillis, type MemberReport } from './reports.ts';
import { takeoverFigures } from './figures.ts';

const OPEN_AGAIN_MILLIS = 50;

/** A blocking write: when it returns, not even SIGKILL can take the report back. */
function report(item: MemberReport): void {
  const bytes = Buffer.from(encodeMemberReport(item));
  for (let sent = 0; sent < bytes.length;) sent += writeSync(REPORT_FD, bytes, sent);
}

/** Notes when the engine finds another star to be over; the rest goes where it is wanted. */
function watchingLog(): Log {
  const ignore = (): void => undefined;
  const out: Log =
    process.env['ASTERLOG_WRITER_LOG'] === undefined
      ? { debug: ignore, info: ignore, warn: ignore, error: ignore }
      : logTo(process.stderr);
  return {
    ...out,
    info: (fields, message) => {
      if (message === LEASE_ENDED) {
        report({ kind: 'detected', at: hostMillis(), star: String(fields['star']) });
      }
      out.info(fields, message);
    },
  };
}

async function run(config: MemberConfig, signal: AbortSignal): Promise<void> {
  const { store, settings, streams } = config;
  const corpus = loadCorpus(config.files);
  const engine = await engineDoor.openEngine(store, {
    settings: { ...settings, meterRoundTrips: true },
    log: watchingLog(),
    listen: { token: process.env[PEER_TOKEN] ?? '' },
  });
  const shared = streams.map((name) => new SharedStream(engine, name));
  await Promise.all(shared.map((stream) => untilOpen(stream, signal)));
  report({ kind: 'appending', star: engine.star });
  await Promise.all([
    ...Array.from({ length: config.producers }, (_, producer) => {
      const stream = shared[producer % shared.length]!;
      return produce({ config, corpus, producer, stream, signal, report });
    }),
    ...shared.map((stream, index) =>
      checkTails({ stream, index, everyMillis: config.checkTailMillis, signal, report }),
    ),
  ]);
  report({ kind: 'takeovers', figures: takeoverFigures(engine.metrics()) });
  await engine.close({ timeoutMillis: store.closeTimeout });
  report({ kind: 'closed' });
}

/** Another member may be opening it at this moment, or just be gone. */
async function untilOpen(stream: SharedStream, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await stream.handle();
      return;
    } catch (cause) {
      const error = toEngineError(cause);
      const mayFollow = error.retryable || error.kind === 'fenced';
      if (!mayFollow || signal.aborted) throw error;
      report({ kind: 'retry', at: hostMillis(), code: error.code });
      await sleep(OPEN_AGAIN_MILLIS);
    }
  }
}

async function main(): Promise<void> {
  const stop = new AbortController();
  // The parent closes the pipe to stop us; it also closes when the parent dies.
  process.stdin.on('close', () => stop.abort()).resume();
  try {
    await run(JSON.parse(process.argv[2]!) as MemberConfig, stop.signal);
  } catch (error) {
    report({ kind: 'failed', error: failureOf(error) });
    process.exitCode = 1;
  }
  process.stdin.destroy();
}

await main();
