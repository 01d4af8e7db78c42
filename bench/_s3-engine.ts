/** An engine on the buckets of the sink, or of another S3 server, with every creation noted. */
import { join } from 'node:path';
import { s3Components } from '../src/engine/components.ts';
import type { EngineSettings } from '../src/protocol/settings.ts';
import { openLoadEngine, type OpenLoadEngine } from './_append-load.ts';
import { CreateLog } from './_recorder.ts';
import type { Workspace } from './_workspace.ts';

/** A benchmark that another program keeps from running for long is no reason to lose the lease. */
const SESSION_TIMEOUT_MILLIS = 120_000;

export interface S3Place {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface Shape {
  readonly buckets: readonly string[];
  readonly copyQuorum: number;
}

export const ONE_BUCKET: Shape = { buckets: ['bench-0'], copyQuorum: 1 };
export const THREE_BUCKETS: Shape = {
  buckets: ['bench-0', 'bench-1', 'bench-2'],
  copyQuorum: 2,
};

export function nameOf({ buckets, copyQuorum }: Shape): string {
  return `K=${buckets.length}/W=${copyQuorum}`;
}

export interface S3Engine extends OpenLoadEngine {
  readonly log: CreateLog;
}

export async function openS3Engine(
  workspace: Workspace,
  place: S3Place,
  shape: Shape,
  settings: EngineSettings,
): Promise<S3Engine> {
  process.env['BENCH_S3_ID'] = place.accessKeyId;
  process.env['BENCH_S3_SECRET'] = place.secretAccessKey;
  const log = new CreateLog();
  const components = s3Components({
    endpoint: place.endpoint,
    buckets: shape.buckets.map((bucket) => ({ bucket })),
    credentials: {
      from: 'environment',
      accessKeyId: 'BENCH_S3_ID',
      secretAccessKey: 'BENCH_S3_SECRET',
    },
    metastore: { root: join(workspace.freshFolder(), 'data') },
  });
  const opened = await openLoadEngine({
    components,
    settings: {
      copyQuorum: shape.copyQuorum,
      sessionTimeoutMillis: SESSION_TIMEOUT_MILLIS,
      ...settings,
    },
    wrap: (index, store) => log.record(index, store),
  });
  return { ...opened, log };
}
