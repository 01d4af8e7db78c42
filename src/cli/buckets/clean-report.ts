/** What was found of demos, as a document and as a table. */
import type { CleanedBucket, FoundDemo } from '../../engine/demo-cleanup.ts';
import type { EngineError } from '../../lib/errors.ts';
import { table, type Paint } from '../drawing.ts';
import { formatBytes, formatCount } from '../numbers.ts';
import { adviceFor } from './advice.ts';

export function cleanFailuresOf(buckets: readonly CleanedBucket[]): EngineError[] {
  return buckets.flatMap(({ demos, error }) =>
    [error, ...demos.map((demo) => demo.error)].flatMap((one) => one ?? []),
  );
}

const withAdvice = (error: EngineError): object => ({
  ...error.toJSON(),
  advice: adviceFor(error),
});
const errorPart = (error: EngineError | undefined): object =>
  error === undefined ? {} : { error: withAdvice(error) };

export function cleanDocument(buckets: readonly CleanedBucket[], dryRun: boolean): object {
  return {
    ok: cleanFailuresOf(buckets).length === 0,
    dryRun,
    buckets: buckets.map(({ error, demos, ...bucket }) => ({
      ...bucket,
      ...errorPart(error),
      demos: demos.map(({ error: why, ...demo }) => ({ ...demo, ...errorPart(why) })),
    })),
  };
}

const OUTCOMES: Readonly<Record<FoundDemo['outcome'], string>> = {
  removed: 'removed',
  removable: 'would be removed',
  kept: 'kept',
  failed: 'FAILED',
};

export function outcomeText({ outcome, why }: FoundDemo): string {
  return why === undefined ? OUTCOMES[outcome] : `${OUTCOMES[outcome]}: ${why}`;
}

export function cleanLines(buckets: readonly CleanedBucket[], paint: Paint): string[] {
  const rows = buckets.flatMap(({ name, demos }) =>
    demos.map((demo) => [
      name,
      demo.prefix,
      formatCount(demo.objects),
      formatBytes(demo.bytes),
      outcomeText(demo),
    ]),
  );
  const columns = [
    { title: 'BUCKET' },
    { title: 'DEMO' },
    { title: 'OBJECTS', align: 'right' as const },
    { title: 'BYTES', align: 'right' as const },
    { title: 'OUTCOME' },
  ];
  const failures = buckets.flatMap(({ name, demos, error }) => [
    ...(error === undefined ? [] : [[name, error] as const]),
    ...demos.flatMap((demo) =>
      demo.error === undefined ? [] : [[`${name} ${demo.prefix}`, demo.error] as const],
    ),
  ]);
  return [
    ...(rows.length === 0 ? [] : table(columns, rows, paint)),
    ...failures.flatMap(([where, error]) => [
      '',
      paint.bad(`${where}: ${error.code} ${error.message}`),
      `  ${adviceFor(error)}`,
    ]),
    ...(rows.length === 0 && failures.length === 0 ? ['no demo left anything here'] : []),
  ];
}
