/** Which processes live on which host: what the port `Processes` of each of them answers from. */
import type { ProcessIdentity, Processes } from '../ports/processes.ts';
import type { EventOwner } from './scheduler.ts';

interface Row {
  readonly owner: EventOwner;
  readonly identity: ProcessIdentity;
  isAlive: boolean;
}

export class ProcessTable {
  readonly #rows: Row[] = [];
  readonly #nextPid = new Map<string, number>();
  #starts = 0;

  /** Registers a new process. Pids are reused now and then, as a small pid range would. */
  start(owner: EventOwner, hostName: string): ProcessIdentity {
    const pid = this.#nextPid.get(hostName) ?? 100;
    this.#nextPid.set(hostName, pid >= 103 ? 100 : pid + 1);
    const identity: ProcessIdentity = {
      bootId: `boot-of-${hostName}`,
      hostName,
      pidNamespace: '4026531836',
      pid,
      startTime: String(1_000 + this.#starts++),
    };
    this.#rows.push({ owner, identity, isAlive: true });
    return identity;
  }

  end(owner: EventOwner): void {
    for (const row of this.#rows) if (row.owner === owner) row.isAlive = false;
  }

  /** The table as one process sees it: only its own host can be judged. */
  viewOf(owner: EventOwner): Processes {
    const own = this.#rows.find((row) => row.owner === owner)!.identity;
    return {
      self: () => own,
      judge: (identity) => {
        const sameHost =
          identity.bootId === own.bootId &&
          identity.hostName === own.hostName &&
          identity.pidNamespace === own.pidNamespace;
        if (!sameHost) return 'unknown';
        const living = this.#rows.find(
          (row) =>
            row.isAlive &&
            row.identity.hostName === identity.hostName &&
            row.identity.pid === identity.pid,
        );
        return living?.identity.startTime === identity.startTime ? 'alive' : 'dead';
      },
    };
  }
}
