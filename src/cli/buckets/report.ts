/** Reports on buckets as documents and as tables. */
import type { BucketCheck, BucketReport, CheckName } from '../../engine/bucket-report.ts';
import type { BucketInit } from '../../engine/buckets.ts';
import type { EngineError } from '../../lib/errors.ts';
import { table, type Paint } from '../drawing.ts';
import { adviceFor } from './advice.ts';

/** Of a check, rows that keep an engine from opening; a warning does not. */
export function failuresOf(reports: readonly BucketReport[]): EngineError[] {
  return reports.flatMap(({ checks }) =>
    checks.flatMap(({ verdict, error }) =>
      error !== undefined && (verdict === 'refused' || verdict === 'unknown') ? [error] : [],
    ),
  );
}

const withAdvice = (error: EngineError, check?: CheckName): object => ({
  ...error.toJSON(),
  advice: adviceFor(error, check),
});

export function bucketsDocument(reports: readonly BucketReport[]): object {
  return {
    ok: failuresOf(reports).length === 0,
    buckets: reports.map(({ name, place, checks }) => ({
      name,
      place,
      ok: failuresOf([{ name, place, checks }]).length === 0,
      checks: checks.map(({ error, ...row }) => ({
        ...row,
        ...(error === undefined ? {} : { error: withAdvice(error, row.check) }),
      })),
    })),
  };
}

export function bucketsLines(reports: readonly BucketReport[], paint: Paint): string[] {
  const rows = reports.flatMap(({ name, checks }) =>
    checks.map((check) => [name, check.check, shown(check), check.found]),
  );
  const lines = table(
    [{ title: 'BUCKET' }, { title: 'CHECK' }, { title: 'VERDICT' }, { title: 'FOUND' }],
    rows,
    paint,
  );
  const problems = reports.flatMap(({ name, checks }) =>
    checks.flatMap(({ check, error, verdict }) => {
      if (error === undefined) return [];
      const text = `${name} ${check}: ${error.code} ${error.message}`;
      const painted = verdict === 'warning' ? paint.warn(text) : paint.bad(text);
      return ['', painted, `  ${adviceFor(error, check)}`];
    }),
  );
  const failures = failuresOf(reports).length;
  return [
    ...lines,
    ...problems,
    '',
    failures === 0
      ? paint.good('all buckets keep what an engine needs')
      : paint.bad(`an engine would not open, or could not go on: ${failures} to mend`),
  ];
}

/** In capitals where something is to be done. */
function shown({ verdict }: BucketCheck): string {
  return verdict === 'ok' || verdict === 'skipped' ? verdict : verdict.toUpperCase();
}

export function initDocument(buckets: readonly BucketInit[], dryRun: boolean): object {
  return {
    ok: buckets.every(({ error }) => error === undefined),
    dryRun,
    buckets: buckets.map(({ error, ...bucket }) => ({
      ...bucket,
      ...(error === undefined ? {} : { error: withAdvice(error) }),
    })),
  };
}

export function initLines(buckets: readonly BucketInit[], paint: Paint): string[] {
  return [
    ...table(
      [{ title: 'BUCKET' }, { title: 'PLACE' }, { title: 'OUTCOME' }],
      buckets.map(({ name, place, outcome }) => [
        name,
        place,
        outcome === 'missing' ? 'missing, would be created' : outcome,
      ]),
      paint,
    ),
    ...buckets.flatMap(({ name, error }) =>
      error === undefined
        ? []
        : ['', paint.bad(`${name}: ${error.code} ${error.message}`), `  ${adviceFor(error)}`],
    ),
  ];
}
