/** Names of temporary files: they tell whose a left-over is, so that a sweep can judge it. */
import { createHash } from 'node:crypto';
import type { ProcessIdentity, Processes } from '../../ports/processes.ts';

const NAME = /^([0-9a-f]{16})\.([0-9a-f]{8})\.(\d+)\.((?:[0-9a-f]{2})*)\.[0-9a-f]+\.[0-9a-z]+$/;

/** The tag of a system that does not tell its boots apart. */
const UNKNOWN_BOOT = '0'.repeat(16);

/** What the names of one process begin with: boot, host and pid namespace, pid, start time. */
export function ownerPrefix(self: ProcessIdentity): string {
  const startTime = Buffer.from(self.startTime, 'utf8').toString('hex');
  return `${bootTag(self)}.${hostTag(self)}.${self.pid}.${startTime}`;
}

/**
 * Whether the process that made a temporary file can still publish it. `unknown` for a name of
 * another making, and for a process of the same boot that cannot be looked up from here.
 */
export function judgeOwner(name: string, processes: Processes): 'alive' | 'dead' | 'unknown' {
  const match = NAME.exec(name);
  if (match === null) return 'unknown';
  const [, boot, host, pid, startTime] = match;
  const self = processes.self();
  if (boot === UNKNOWN_BOOT || self.bootId === '') return 'unknown';
  if (boot !== bootTag(self)) return 'dead';
  if (host !== hostTag(self)) return 'unknown';
  return processes.judge({
    ...self,
    pid: Number(pid),
    startTime: Buffer.from(startTime!, 'hex').toString('utf8'),
  });
}

function bootTag({ bootId }: ProcessIdentity): string {
  return bootId === '' ? UNKNOWN_BOOT : digest([bootId], 16);
}

/** Pids mean something only within one pid namespace of one host. */
function hostTag({ hostName, pidNamespace }: ProcessIdentity): string {
  return digest([hostName, pidNamespace], 8);
}

function digest(parts: readonly string[], digits: number): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, digits);
}
