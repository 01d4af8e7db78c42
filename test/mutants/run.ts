/**
 * Plays every mutant and says who killed it: `npm run mutants [-- OPTIONS]`.
 *
 * --json        one line of JSON: `{ killed: [{ invariant, mutant, killer, seeds }], survivors: [] }`
 * --only TEXT   mutants whose name or invariant holds the text
 * --from N      the first seed, 0 by default
 * --seeds N     seeds of each mutant, in place of its own number
 * --known       every mutant at its known killing seed alone; fails when it is not killed there
 * --record      writes the seeds that killed into known-seeds.json
 * --parallel N  processes at a time, 2 by default
 *
 * Exits with 1 when a mutant survives, with 2 for a bad command line.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cleanUpOnExit, huntAll, type HuntRequest } from './hunt.ts';
import { ruleOf, type Mutant, type Verdict } from './mutant.ts';
import { parseOptions, UsageError, type MutantOptions } from './options.ts';
import { MUTANTS } from './registry.ts';
import { misfits } from './tree.ts';

const KNOWN_PATH = join(import.meta.dirname, 'known-seeds.json');

const STATUS_MILLIS = 15_000;

interface Result {
  readonly mutant: Mutant;
  readonly verdict: Verdict;
}

class Player {
  readonly #options: MutantOptions;
  readonly #results: Result[] = [];
  readonly #running = new Map<Mutant, { readonly since: number; seeds: number }>();
  readonly #begunAt = Date.now();

  constructor(options: MutantOptions) {
    this.#options = options;
  }

  async play(): Promise<readonly Result[]> {
    const { only, parallel } = this.#options;
    const chosen = MUTANTS.filter(
      ({ name, invariant }) => name.includes(only) || invariant === only,
    );
    if (chosen.length === 0) {
      throw new UsageError(`INVALID_OPTION: --only ${JSON.stringify(only)} names no mutant`);
    }
    const outdated = misfits(chosen);
    if (outdated.length > 0) throw new Error(outdated.join('\n'));
    const status = setInterval(() => this.#status(), STATUS_MILLIS);
    try {
      await huntAll(
        chosen.map((mutant) => this.#requestOf(mutant)),
        parallel,
        {
          begun: (mutant) => this.#running.set(mutant, { since: Date.now(), seeds: 0 }),
          progressed: (mutant, seeds) => {
            this.#running.get(mutant)!.seeds = seeds;
          },
          ended: (mutant, verdict, millis) => this.#ended(mutant, verdict, millis),
        },
      );
    } finally {
      clearInterval(status);
    }
    const order = new Map(chosen.map((mutant, index) => [mutant, index]));
    return this.#results.sort((a, b) => order.get(a.mutant)! - order.get(b.mutant)!);
  }

  say(line: string): void {
    if (!this.#options.json) console.log(line);
  }

  #requestOf(mutant: Mutant): HuntRequest {
    const { known, from, seeds } = this.#options;
    if (!known) return { mutant, from, seeds };
    if (mutant.killer.by !== 'storm') return { mutant, from: 0 };
    const seed = readKnown()[mutant.name];
    if (seed === undefined) {
      throw new UsageError(
        `no seed is known to kill "${mutant.name}": npm run mutants -- --record`,
      );
    }
    return { mutant, from: seed, seeds: 1 };
  }

  #status(): void {
    for (const [{ name }, { since, seeds }] of this.#running) {
      this.say(`  … ${name}: ${seeds} seeds, ${seconds(Date.now() - since)}`);
    }
  }

  #ended(mutant: Mutant, verdict: Verdict, millis: number): void {
    this.#running.delete(mutant);
    this.#results.push({ mutant, verdict });
    const { seeds } = verdict;
    const how = verdict.kind === 'killed' ? verdict.killer : 'SURVIVES';
    const count = `${this.#results.length}`.padStart(3);
    const at = seconds(Date.now() - this.#begunAt).padStart(6);
    const row = [
      `${count} ${at} ${mutant.invariant.padEnd(3)}`,
      how.padEnd(14),
      `${seeds} ${seeds === 1 ? 'seed ' : 'seeds'}`.padStart(9),
      seconds(millis).padStart(5),
      mutant.name,
    ];
    this.say(row.join('  '));
    if (verdict.kind === 'killed') this.say(`            ${verdict.message}`);
    else {
      const wanted = `no checker, assertion or case of ${ruleOf(mutant)} noticed`;
      for (const line of [wanted, ...verdict.wrong]) this.say(`            ${line}`);
    }
  }
}

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(0)} s`;

function readKnown(): Record<string, number> {
  return JSON.parse(readFileSync(KNOWN_PATH, 'utf8')) as Record<string, number>;
}

/** Keeps what is known of mutants that were not played. */
function record(results: readonly Result[]): void {
  const known = readKnown();
  for (const { mutant, verdict } of results) {
    if (verdict.kind === 'killed' && verdict.seed !== undefined) known[mutant.name] = verdict.seed;
  }
  const kept = MUTANTS.flatMap(({ name, killer }) =>
    killer.by === 'storm' && known[name] !== undefined ? [[name, known[name]] as const] : [],
  );
  writeFileSync(KNOWN_PATH, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
}

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  cleanUpOnExit();
  const begunAt = Date.now();
  const player = new Player(options);
  const results = await player.play();
  if (options.record) record(results);
  const killed = results.flatMap(({ mutant, verdict }) => {
    if (verdict.kind !== 'killed') return [];
    const { killer, seeds } = verdict;
    return [{ invariant: mutant.invariant, mutant: mutant.name, killer, seeds }];
  });
  const survivors = results.flatMap(({ mutant, verdict }) => {
    if (verdict.kind === 'killed') return [];
    const { seeds, wrong } = verdict;
    return [{ invariant: mutant.invariant, mutant: mutant.name, seeds, wrong }];
  });
  if (options.json) console.log(JSON.stringify({ killed, survivors }));
  const minutes = ((Date.now() - begunAt) / 60_000).toFixed(1);
  player.say(`${killed.length} killed, ${survivors.length} survive, ${minutes} minutes`);
  process.exitCode = survivors.length === 0 ? 0 : 1;
}

await main().catch((error: unknown) => {
  const { message, stack } = error as Error;
  const isUsage = error instanceof UsageError;
  console.error(isUsage ? message : stack);
  process.exitCode = isUsage ? 2 : 1;
});
