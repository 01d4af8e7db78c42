/** Every mutant dies at the seed that is known to kill it, in a copy of the tree of its own. */
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { MUTANTS } from './registry.ts';
import { ROOT } from './tree.ts';

/** Two or three minutes on two idle cores; a busy machine takes its time. */
const MINUTES_MAX = 20 * 60_000;

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[], whileRunning?: (pid: number) => void): Promise<Run> {
  const command = ['--import', 'tsx', 'test/mutants/run.ts', ...args];
  const child = spawn(process.execPath, command, { cwd: ROOT });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  whileRunning?.(child.pid!);
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

describe('every mutant', () => {
  it(
    'is killed at its known seed by the checker, assertion or case of its rule',
    async () => {
      const { code, stdout, stderr } = await run(['--known', '--json']);
      const { killed, survivors } = JSON.parse(stdout) as {
        killed: { mutant: string; killer: string }[];
        survivors: unknown[];
      };
      expect(stderr).toBe('');
      expect(survivors).toEqual([]);
      expect(killed.map(({ mutant }) => mutant)).toEqual(MUTANTS.map(({ name }) => name));
      for (const { killer } of killed) expect(killer).toMatch(/^(checker|assertion) \w+$|^model$/);
      expect(code).toBe(0);
    },
    MINUTES_MAX,
  );
});

describe('the command', () => {
  it('answers a bad command line with one line and the status 2', async () => {
    const { code, stdout, stderr } = await run(['--seeds', 'many']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^INVALID_OPTION: --seeds .*\n$/);
  });

  it('removes its copy of the tree when it is ended by a signal', async () => {
    const name = 'a tail is answered without a confirmation';
    const before = trees();
    const { code } = await run(['--only', name], (pid) => {
      void (async () => {
        for (let i = 0; i < 400 && trees().length <= before.length; i++) {
          await new Promise((resolve) => setTimeout(resolve, 25));
        }
        process.kill(pid, 'SIGTERM');
      })();
    });
    expect(code).toBe(128 + 15);
    expect(trees().filter((tree) => !before.includes(tree))).toEqual([]);
  });
});

function trees(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('asterlog-mutant-'));
}
