/**
 * A process that embeds an engine and runs clients of streams that it shares with other such processes:
 * who leads a stream serves it, the others forward. Killed at any time: an event is out of the
 * process before the call it announces, or after the answer it tells.
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { engineDoor } from '../../src/cli/door.ts';
import { REPORT_FD } from '../../src/cli/load/writer-config.ts';
import { SharedStream } from '../../src/cli/takeover/producer.ts';
import type { Engine } from '../../src/engine/api.ts';
import { toEngineError } from '../../src/lib/errors.ts';
import { Prng } from '../../src/lib/prng.ts';
import { Client, type Lead } from './client.ts';
import { encodeEvent } from './events.ts';
import { IDS_PER_RUN, PEER_TOKEN, type MemberConfig, type MemberReport } from './member-config.ts';
import { Recorder } from './recorder.ts';

function report(item: MemberReport): void {
  const bytes = Buffer.from(`${JSON.stringify(item)}\n`);
  for (let sent = 0; sent < bytes.length;) sent += writeSync(REPORT_FD, bytes, sent);
}

function clientsOf(engine: Engine, config: MemberConfig): Client[] {
  const clock = systemClock();
  const { run, clients, streams, thinkMillis } = config;
  return streams.flatMap((workflow, index) => {
    const shared = new SharedStream(engine, workflow);
    const recorder = new Recorder((event) => {
      const at = process.hrtime.bigint().toString();
      report({ kind: 'event', at, stream: workflow, line: encodeEvent(event) });
    }, run * IDS_PER_RUN);
    const lead = async (): Promise<Lead | undefined> => {
      try {
        const stream = await shared.handle();
        return { stream, failed: (error) => shared.failed(toEngineError(error)) };
      } catch {
        return undefined;
      }
    };
    return Array.from({ length: clients }, (_, number) => {
      const prng = new Prng((run * 64 + index) * 64 + number);
      const name = `r${run}c${number}`;
      return new Client({
        ...{ name, clock, prng, recorder, lead, workflow, thinkMillis },
        ...{ operations: Number.POSITIVE_INFINITY, timeoutMillis: 5_000 },
      });
    });
  });
}

async function run(config: MemberConfig): Promise<void> {
  const engine = await engineDoor.openEngine(config.store, { listen: { token: PEER_TOKEN } });
  const clients = clientsOf(engine, config);
  report({ kind: 'open' });
  // The parent closes the pipe to stop us; it also closes when the parent dies.
  const stop = (): void => {
    for (const client of clients) client.stop();
  };
  process.stdin.on('close', stop).resume();
  await Promise.all(clients.map((client) => client.run()));
  await engine.close({ timeoutMillis: config.store.closeTimeout });
  report({ kind: 'closed' });
}

try {
  await run(JSON.parse(process.argv[2]!) as MemberConfig);
} catch (error) {
  report({ kind: 'failed', message: toEngineError(error).message });
  process.exitCode = 1;
}
process.stdin.destroy();
