/** What a lease record tells of the process that holds it, so that neighbours on the host can judge it. */
export interface ProcessIdentity {
  readonly bootId: string;
  readonly hostName: string;
  readonly pidNamespace: string;
  readonly pid: number;
  /** Start time of the process as the system counts it; tells a reused pid apart. */
  readonly startTime: string;
}

export interface Processes {
  self(): ProcessIdentity;
  /**
   * `dead` only when boot id, host name and pid namespace equal our own and the pid does not exist
   * or belongs to a process with another start time. Anything unreadable or unequal is `unknown`.
   */
  judge(identity: ProcessIdentity): 'alive' | 'dead' | 'unknown';
}
