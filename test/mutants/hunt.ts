/** Runs mutants in processes of their own, a few at a time, and collects the verdicts. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Job, Report } from './child.ts';
import type { Mutant, Verdict } from './mutant.ts';
import { NODE_FLAGS } from '../sim/seed-pool.ts';
import { fellTree, growTree, ROOT } from './tree.ts';

export interface HuntRequest {
  readonly mutant: Mutant;
  readonly from: number;
  readonly seeds?: number | undefined;
}

export interface HuntListener {
  begun?(mutant: Mutant): void;
  progressed?(mutant: Mutant, seeds: number): void;
  ended?(mutant: Mutant, verdict: Verdict, millis: number): void;
}

/** One process plays all that needs the same tree: what the model varies itself needs no copy at all. */
type Crew = readonly HuntRequest[];

/** A seed that takes longer than this runs in circles. */
const SILENCE_MILLIS = 150_000;

const trees = new Set<string>();
const children = new Set<ChildProcess>();

/** Ends every process and removes every tree, however this process ends. */
export function cleanUpOnExit(): void {
  const end = (): void => {
    for (const child of children) child.kill('SIGKILL');
    for (const tree of trees) fellTree(tree);
    trees.clear();
  };
  process.once('exit', end);
  for (const [signal, number] of [
    ['SIGHUP', 1],
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ] as const) {
    process.once(signal, () => process.exit(128 + number));
  }
}

export async function huntAll(
  requests: readonly HuntRequest[],
  parallel: number,
  listener: HuntListener,
): Promise<void> {
  const crews: Crew[] = [];
  const variations = requests.filter(({ mutant }) => mutant.edits.length === 0);
  if (variations.length > 0) crews.push(variations);
  for (const request of requests) if (request.mutant.edits.length > 0) crews.push([request]);
  const next = async (): Promise<void> => {
    for (let crew = crews.shift(); crew !== undefined; crew = crews.shift()) {
      await huntCrew(crew, listener);
    }
  };
  await Promise.all(Array.from({ length: parallel }, next));
}

async function huntCrew(crew: Crew, listener: HuntListener): Promise<void> {
  const [first] = crew;
  if (first!.mutant.edits.length === 0) return runChild(ROOT, crew, listener);
  const tree = growTree(first!.mutant);
  trees.add(tree);
  try {
    await runChild(tree, crew, listener);
  } finally {
    fellTree(tree);
    trees.delete(tree);
  }
}

async function runChild(tree: string, crew: Crew, listener: HuntListener): Promise<void> {
  const jobs = crew.map(({ mutant, from, seeds }): Job => ({
    mutant: mutant.name,
    from,
    ...(seeds && { seeds }),
  }));
  const args = [...NODE_FLAGS, join(tree, 'test/mutants/child.ts'), JSON.stringify(jobs)];
  const child = spawn(process.execPath, args, { cwd: tree, stdio: ['pipe', 'pipe', 'pipe'] });
  children.add(child);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  child.stdin.on('error', () => undefined);
  const silence = { isOver: false };
  const guard = setTimeout(() => {
    silence.isOver = true;
    child.kill('SIGKILL');
  }, SILENCE_MILLIS);
  const left = [...crew];
  let begunAt = Date.now();
  let seeds = 0;
  listener.begun?.(left[0]!.mutant);
  for await (const line of createInterface({ input: child.stdout })) {
    guard.refresh();
    const report = JSON.parse(line) as Report;
    if ('seeds' in report) {
      seeds = report.seeds;
      listener.progressed?.(left[0]!.mutant, seeds);
      continue;
    }
    listener.ended?.(left.shift()!.mutant, report.verdict, Date.now() - begunAt);
    begunAt = Date.now();
    if (left[0] !== undefined) listener.begun?.(left[0].mutant);
  }
  await ended;
  clearTimeout(guard);
  children.delete(child);
  // A process that ended early noticed nothing by itself.
  const last = silence.isOver ? 'it ran in circles' : lastLines(errors);
  for (const { mutant } of left) {
    const wrong = [`the process ended: ${last}`];
    listener.ended?.(mutant, { kind: 'survived', seeds, wrong }, Date.now() - begunAt);
  }
}

function lastLines(text: string): string {
  const lines = text.split('\n').filter((line) => /\w/.test(line));
  return (
    lines.find((line) => /^\w*Error\b/.test(line)) ??
    lines.at(-1) ??
    'without a word'
  ).trim();
}
