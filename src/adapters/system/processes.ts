import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { ProcessIdentity, Processes } from '../../ports/processes.ts';

export interface SystemProcessesOptions {
  /** Where the process file system is mounted. @default '/proc' */
  readonly procDirectory?: string;
}

/**
 * Processes of this machine, judged through `/proc`. Where there is none, or it hides other users'
 * processes, everything is `unknown`.
 */
export function systemProcesses(options: SystemProcessesOptions = {}): Processes {
  const proc = options.procDirectory ?? '/proc';
  const self: ProcessIdentity = {
    bootId: readText(`${proc}/sys/kernel/random/boot_id`),
    hostName: hostname(),
    pidNamespace: namespaces(proc),
    pid: process.pid,
    startTime: readStat(proc, process.pid)?.startTime ?? '',
  };
  return {
    self: () => self,
    judge: (identity) => {
      const here =
        isKnown(self) &&
        isKnown(identity) &&
        identity.bootId === self.bootId &&
        identity.hostName === self.hostName &&
        identity.pidNamespace === self.pidNamespace;
      return here ? judgePid(proc, identity) : 'unknown';
    },
  };
}

function isKnown(identity: ProcessIdentity): boolean {
  return identity.bootId !== '' && identity.pidNamespace !== '' && identity.startTime !== '';
}

function judgePid(proc: string, identity: ProcessIdentity): 'alive' | 'dead' | 'unknown' {
  // Zero and negative numbers name groups, not processes.
  if (!Number.isSafeInteger(identity.pid) || identity.pid <= 0) return 'unknown';
  if (!pidExists(identity.pid)) return 'dead';
  const stat = readStat(proc, identity.pid);
  if (stat === undefined) return 'unknown';
  // A zombie has ended; only its parent has not asked for its status yet.
  if (stat.startTime !== identity.startTime || stat.state === 'Z' || stat.state === 'X') {
    return 'dead';
  }
  return 'alive';
}

function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM and anything else: somebody is there, or we cannot tell.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Start times are read relative to the time namespace, so its name is part of the comparison. */
function namespaces(proc: string): string {
  const pid = readLink(`${proc}/self/ns/pid`);
  const time = readLink(`${proc}/self/ns/time`);
  return pid === '' || time === '' ? pid : `${pid} ${time}`;
}

interface Stat {
  readonly state: string;
  readonly startTime: string;
}

/** Fields 3 and 22. The name in field 2 may hold blanks and parentheses: what counts starts after its last one. */
function readStat(proc: string, pid: number): Stat | undefined {
  const text = readText(`${proc}/${pid}/stat`);
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  return state === undefined || startTime === undefined || !/^\d+$/.test(startTime)
    ? undefined
    : { state, startTime };
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch {
    return '';
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
