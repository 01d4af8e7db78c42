/** What the server of the benchmark itself can do, and what an idle engine asks of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { rounded, type Row } from './_rows.ts';
import { ONE_BUCKET, openS3Engine, THREE_BUCKETS, type S3Place } from './_s3-engine.ts';
import { BareLoop } from './_s3-floor.ts';
import type { Sink } from './_s3-sink.ts';
import { WINDOW } from './_s3-throughput.ts';
import type { Workspace } from './_workspace.ts';

/**
 * Requests that the server's processor time allows, against what a bare loop gets: below 1.1 or so it is
 * the server that limits the loop, and everything that is compared with the loop.
 */
export async function headroomRows(
  sink: Sink,
  place: S3Place,
  payloadBytes: number,
): Promise<Row[]> {
  await sink.serve();
  const rows: Row[] = [];
  for (const kib of [4, 64, 1_024, 4_096]) {
    const loop = new BareLoop({
      ...place,
      ...ONE_BUCKET,
      concurrency: WINDOW,
      recordBytes: undefined,
    });
    const count = Math.min(20_000, Math.ceil(payloadBytes / (kib << 10)));
    const flights = Array.from({ length: count }, () => ({ sizeBytes: kib << 10 }));
    await loop.closed(flights);
    const before = await sink.report();
    const { seconds } = await loop.closed(flights);
    const after = await sink.report();
    await loop.close();
    const floor = count / seconds;
    const engine = count / (after.cpuSeconds - before.cpuSeconds);
    rows.push({
      name: `what the server could take of ${kib} KiB, to what the bare loop sends`,
      floor: rounded(floor),
      engine: rounded(engine),
      ratio: rounded(engine / floor),
      unit: 'PUT/s',
    });
  }
  await sink.forget();
  return rows;
}

/** An engine whose last record is acknowledged and copied everywhere asks nothing of its buckets. */
export async function idleRow(
  workspace: Workspace,
  sink: Sink,
  place: S3Place,
  seconds: number,
): Promise<Row> {
  await sink.forget();
  const engine = await openS3Engine(workspace, place, THREE_BUCKETS, {});
  try {
    await (await engine.streams[0]!.submit([{ body: new Uint8Array(100) }])).ack();
    await engine.log.idle();
    const before = await sink.report();
    await sleep(seconds * 1_000);
    const after = await sink.report();
    const requests = after.requests - before.requests;
    const unit = `requests in ${seconds} s`;
    return { name: 'idle', floor: 0, engine: requests, ratio: requests === 0 ? 1 : 0, unit };
  } finally {
    await engine.close();
  }
}
