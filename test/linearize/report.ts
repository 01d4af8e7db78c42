/** What a run says in the end. */
import type { RealRun } from './real.ts';
import type { Account, Violation } from './verdicts.ts';

export interface Report {
  readonly account: Account;
  readonly simulated: { readonly seeds: number; readonly millis: number };
  readonly real: Omit<RealRun, 'histories'> | undefined;
  readonly millis: number;
}

export function jsonOf({ account, simulated, real, millis }: Report): string {
  const { histories, operations, violations, unknown, results } = account;
  const { tookEffect, configurations } = account;
  const report = {
    histories,
    operations,
    violations,
    unknown: unknown.length,
    undecided: unknown,
    indeterminate: results.appendIndefiniteFailure,
    tookEffect,
    results,
    configurations,
    simulated: { ...simulated, seedsPerMinute: perMinute(simulated) },
    real,
    millis: Math.round(millis),
  };
  return JSON.stringify(report, (_key, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

export function* linesOf({ account, simulated, real, millis }: Report): Generator<string> {
  const { histories, operations, violations, unknown, results, tookEffect } = account;
  for (const violation of violations) yield* violationLines(violation);
  for (const { label, replay } of unknown) {
    yield `${label}: not decided in time`;
    yield `  replay: ${replay}`;
  }
  if (simulated.seeds > 0) yield `${simulated.seeds} seeds (${perMinute(simulated)} a minute)`;
  if (real !== undefined) {
    yield `real processes: ${real.kills} kills, ${real.pauses} pauses in ${real.seconds} s`;
  }
  const counts = Object.entries(results).map(([kind, count]) => `${kind} ${count}`);
  yield `${counts.join(', ')}; ${tookEffect} of unknown outcome took effect`;
  yield (
    `${histories} histories, ${operations} operations, ${violations.length} violations, ` +
    `${unknown.length} unknown, ${(millis / 1_000).toFixed(1)} s`
  );
}

function perMinute({ seeds, millis }: Report['simulated']): number {
  return millis > 0 ? Math.round((seeds * 60_000) / millis) : 0;
}

function* violationLines({ label, replay, counterExample, failure }: Violation): Generator<string> {
  yield `${label}: ${failure ?? 'not linearizable'}`;
  if (counterExample !== undefined) {
    const { events, answer, placed, state, unplaced } = counterExample;
    yield `  the first ${events} events have no order; the last answer is`;
    yield `    ${answer}`;
    yield `  the longest order ends with`;
    for (const each of placed) yield `    ${each}`;
    yield `  in the state tail ${state.tail}, hash ${state.hash}, token ${JSON.stringify(state.token)}; without a place are`;
    for (const each of unplaced) yield `    ${each}`;
  }
  yield `  replay: ${replay}`;
}
