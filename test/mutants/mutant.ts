/**
 * Mutants: deliberate breaks of the product's rules, each of which a checker, an assertion or the
 * model must notice. `npm run mutants` plays them all; a survivor says that the proof has a hole.
 *
 * A mutant is an edit of a source file. The product has no switch for it, but for the rules that its
 * walk is handed (`FenceRules` in src/protocol/fence-state.ts), which only variations of the model
 * exchange. Every mutant runs in a process of its own over a temporary copy of the tree, in which
 * `find`, which must occur exactly once in `file`, became `replace`. When the product changes so that
 * `find` is not there any more, the run says which mutant must be brought up to date.
 *
 * To add one:
 * 1. Break the rule in the product in the way in which a programmer would, the smaller the better, and
 *    write the edit into the file of its subject beside this one, under the invariant of
 *    docs/protocol.md that it breaks.
 * 2. Choose the killer. `storm`: random seeds of test/sim; give the seeds within which it must die.
 *    `script`: a scenario for what storms meet too rarely; it must pass without the break, which
 *    scripts.sim.test.ts plays under all checkers. `model`: a case of test/model; with edits one that
 *    must hold without them, without edits a variation (`breaks`) of rules that the model drives.
 * 3. Only the checker of the mutant's own invariant listens, or an assertion that cites it; that
 *    another rule notices is no kill, unless the mutant names that rule in `rule` and says why.
 * 4. `npm run mutants -- --only NAME`, then `-- --record`: known-seeds.json keeps a seed that kills,
 *    and `--known`, which the tests run, plays that seed alone.
 */
import type { StormConfig } from '../sim/world-config.ts';
import type { Scenario, ScenarioOptions } from '../sim/scenario.ts';

export interface Edit {
  /** From the root of the repository. */
  readonly file: string;
  /** Exact text that occurs once. */
  readonly find: string;
  readonly replace: string;
}

/** Random seeds. */
export interface StormKiller {
  readonly by: 'storm';
  /** Seeds within which it must die, counted from 0. */
  readonly seedsMax: number;
  /** Seeds of other shapes are not played, and count as no seed. */
  readonly when?: (config: StormConfig) => boolean;
}

/** One scripted history. */
export interface ScriptKiller {
  readonly by: 'script';
  readonly options?: ScenarioOptions;
  readonly script: (scenario: Scenario) => Promise<void>;
}

/** Every interleaving of one case of the model. */
export interface ModelKiller {
  readonly by: 'model';
  /** Its name there. */
  readonly model: string;
}

export interface Mutant {
  /** Unique; says what is wrong. */
  readonly name: string;
  /** The number in docs/protocol.md. */
  readonly invariant: string;
  readonly edits: readonly Edit[];
  readonly killer: StormKiller | ScriptKiller | ModelKiller;
  /** The rule whose checker or assertion must notice; the invariant itself by default. */
  readonly rule?: string;
  /** Why another rule may notice. */
  readonly because?: string;
}

export function ruleOf({ invariant, rule = invariant }: Mutant): string {
  return rule;
}

/** What one process found out about a mutant. */
export type Verdict =
  | {
      readonly kind: 'killed';
      /** For example `checker F1`, `assertion A1`, `model`. */
      readonly killer: string;
      /** Seeds that were played; 1 for a script or a case of the model. */
      readonly seeds: number;
      /** The one that killed; undefined for a script or a case of the model. */
      readonly seed: number | undefined;
      readonly message: string;
    }
  | {
      readonly kind: 'survived';
      readonly seeds: number;
      /** What ended seeds without being a kill: another rule, a plain crash. */
      readonly wrong: readonly string[];
    };
