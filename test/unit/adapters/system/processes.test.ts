import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemProcesses } from '../../../../src/adapters/system/processes.ts';
import type { ProcessIdentity } from '../../../../src/ports/processes.ts';

describe.runIf(existsSync('/proc/self/stat'))('systemProcesses on this machine', () => {
  const processes = systemProcesses();
  const self = processes.self();

  it('knows itself', () => {
    expect(self.pid).toBe(process.pid);
    expect(self.bootId).toMatch(/^[0-9a-f-]{36}$/);
    expect(self.pidNamespace).toMatch(/^pid:\[\d+\]/);
    expect(self.startTime).toMatch(/^\d+$/);
    expect(processes.judge(self)).toBe('alive');
    expect(processes.judge(systemProcesses().self())).toBe('alive');
  });

  it('tells a reused pid by its start time', () => {
    expect(processes.judge({ ...self, startTime: `${Number(self.startTime) - 1}` })).toBe('dead');
  });

  it.each(['bootId', 'hostName', 'pidNamespace'] as const)('judges nobody of another %s', (key) => {
    const elsewhere = { ...self, pid: 2 ** 22 - 1, startTime: '1' };
    expect(processes.judge(elsewhere)).toBe('dead');
    expect(processes.judge({ ...elsewhere, [key]: 'another' })).toBe('unknown');
    expect(processes.judge({ ...elsewhere, [key]: '' })).toBe('unknown');
  });

  it.each([0, -1, 1.5, Number.NaN])('judges no process by the pid %d', (pid) => {
    expect(processes.judge({ ...self, pid })).toBe('unknown');
  });

  it('sees a process die, its status collected or not', async () => {
    // The shell prints the pid of a child that it never waits for, and then becomes `sleep`.
    const shell = spawn('sh', ['-c', 'sleep 300 & echo $!; exec sleep 300'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [line] = (await once(shell.stdout, 'data')) as [Buffer];
    const identityOf = (pid: number): ProcessIdentity => ({
      ...self,
      pid,
      startTime: startTimeOf(pid),
    });
    const child = identityOf(Number(line.toString()));
    const parent = identityOf(shell.pid!);
    expect([child, parent].map((one) => processes.judge(one))).toEqual(['alive', 'alive']);
    process.kill(child.pid, 'SIGKILL');
    // Its parent never asks for its status: a zombie keeps the pid.
    await expect.poll(() => processes.judge(child), { interval: 5 }).toBe('dead');
    expect(() => process.kill(child.pid, 0)).not.toThrow();
    expect(processes.judge(parent)).toBe('alive');
    shell.kill('SIGKILL');
    await once(shell, 'close');
    expect(processes.judge(parent)).toBe('dead');
  });

  /** As the process itself would read it. */
  function startTimeOf(pid: number): string {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19]!;
  }
});

describe('systemProcesses over a made-up /proc', () => {
  let proc: string;
  beforeEach(async () => {
    proc = await mkdtemp(join(tmpdir(), 'asterlog-proc-'));
  });
  afterEach(() => rm(proc, { recursive: true }));

  async function write(stat: string, withTime = true): Promise<void> {
    await mkdir(join(proc, 'sys/kernel/random'), { recursive: true });
    await writeFile(join(proc, 'sys/kernel/random/boot_id'), 'some-boot\n');
    await mkdir(join(proc, 'self/ns'), { recursive: true });
    await symlink('pid:[1]', join(proc, 'self/ns/pid'));
    if (withTime) await symlink('time:[2]', join(proc, 'self/ns/time'));
    await mkdir(join(proc, `${process.pid}`));
    await writeFile(join(proc, `${process.pid}`, 'stat'), stat);
  }
  const statOf = (name: string, state: string, startTime: string): string =>
    `${process.pid} (${name}) ${state} ${Array.from({ length: 18 }, () => '0').join(' ')} ${startTime} 0 0\n`;

  it('reads past blanks and parentheses in the name of the process', async () => {
    await write(statOf('a) S 1 (b', 'R', '777'));
    const processes = systemProcesses({ procDirectory: proc });
    expect(processes.self()).toMatchObject({
      bootId: 'some-boot',
      pidNamespace: 'pid:[1] time:[2]',
      startTime: '777',
    });
    expect(processes.judge(processes.self())).toBe('alive');
  });

  it.each(['Z', 'X'])('counts state %s as dead', async (state) => {
    await write(statOf('node', state, '777'), false);
    const processes = systemProcesses({ procDirectory: proc });
    expect(processes.self().pidNamespace).toBe('pid:[1]');
    expect(processes.judge(processes.self())).toBe('dead');
  });

  it('does not take what it cannot read for dead', async () => {
    await write(statOf('node', 'R', '777'));
    const processes = systemProcesses({ procDirectory: proc });
    const self = processes.self();
    for (const garbage of ['', 'nonsense', statOf('node', 'R', 'soon')]) {
      await writeFile(join(proc, `${process.pid}`, 'stat'), garbage);
      expect(processes.judge(self)).toBe('unknown');
    }
    await rm(join(proc, `${process.pid}`), { recursive: true });
    expect(processes.judge(self)).toBe('unknown');
  });

  it('judges nobody where there is no /proc', () => {
    const processes = systemProcesses({ procDirectory: join(proc, 'nowhere') });
    const self = processes.self();
    expect(self).toMatchObject({ bootId: '', pidNamespace: '', startTime: '', pid: process.pid });
    expect(processes.judge(self)).toBe('unknown');
    expect(processes.judge({ ...self, pid: 2 ** 22 - 1 })).toBe('unknown');
  });
});
