/**
 * Registration of a star: finds out whether its name is free, and takes it. Rules:
 * src/protocol/lease.ts.
 */
import { EngineError } from '../src/lib/errors.ts';
import { sleep } from '../src/lib/wait.ts';
import { starKey } from '../src/protocol/keys.ts';
import {
  LOOK_EVERY_MILLIS,
  encodeLease,
  firstLease,
  isLost,
  isSameProcess,
  judgeRegistration,
  observe,
  parseLease,
  type LeaseObservation,
  type RegistrationDecision,
  type StarLease,
} from '../src/protocol/lease.ts';
import type { MetaEntry, MetaVersion, Metastore, PutResult } from '../src/ports/metastore.ts';
import { conditionalPut, type ConditionalContext } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

export type RegistrationPorts = Pick<StarPorts, 'metastore' | 'clock' | 'random' | 'processes'>;

export interface Registrant {
  readonly star: string;
  readonly timeoutMillis: number;
  /** Where peers reach this star. */
  readonly address?: string | undefined;
}

export interface RegisterOptions {
  /** Replace a live holder at once. At process start only, never after a loss. */
  readonly supersede?: boolean;
  /** Incarnations of this star that the caller itself has lost. */
  readonly replaces?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface HeldLease {
  readonly lease: StarLease;
  readonly version: MetaVersion;
  /** When the write that is known to be applied was first sent. */
  readonly sentAt: number;
}

/**
 * Writes the first record of a new incarnation once the name is free.
 *
 * @param options.onAttempt - told each incarnation of which a record may exist from then on.
 * @throws EngineError STAR_IN_USE, METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
 */
export async function registerLease(
  ports: RegistrationPorts,
  registrant: Registrant,
  options: RegisterOptions & { readonly onAttempt: (incarnation: string) => void },
): Promise<HeldLease> {
  const { metastore, clock, random } = ports;
  const { star, timeoutMillis } = registrant;
  const { signal, onAttempt } = options;
  const key = starKey(star);
  const replaces = [...(options.replaces ?? [])];
  let observation: LeaseObservation | undefined;
  for (;;) {
    const entry = await metastore.get(key, { signal });
    const seen = judge(ports, observation, entry, { ...options, replaces });
    observation = seen.observation;
    if (seen.decision === 'in-use') throw starInUse(star, seen.current!);
    if (seen.decision === 'watch') {
      await sleep(clock, LOOK_EVERY_MILLIS, signal);
      continue;
    }
    const lease = newLease(ports, registrant);
    onAttempt(lease.incarnation);
    const sentAt = clock.monotonic();
    const expected = entry?.version ?? 'absent';
    const put = await writeLease(metastore, { key, lease, expected }, { clock, random, signal });
    if (put.kind === 'conflict') continue;
    // An answer that took a timeout registered an incarnation that is lost already.
    if (!isLost(sentAt, clock.monotonic(), timeoutMillis)) {
      return { lease, version: put.version, sentAt };
    }
    replaces.push(lease.incarnation);
  }
}

export function writeLease(
  metastore: Metastore,
  write: { readonly key: string; readonly lease: StarLease; readonly expected: MetaVersion },
  context: ConditionalContext,
): Promise<PutResult> {
  const { key, lease, expected } = write;
  const encode = (attempt: string): Uint8Array => encodeLease({ ...lease, attempt });
  return conditionalPut(metastore, { key, expected, encode }, context);
}

interface Judgement {
  readonly decision: RegistrationDecision;
  readonly observation: LeaseObservation | undefined;
  readonly current: StarLease | undefined;
}

function judge(
  { clock, processes }: RegistrationPorts,
  previous: LeaseObservation | undefined,
  entry: MetaEntry | undefined,
  { supersede = false, replaces = [] }: RegisterOptions,
): Judgement {
  if (entry === undefined) {
    return { decision: 'create', observation: previous, current: undefined };
  }
  const current = parseLease(entry.key, entry.value);
  const seen = { version: entry.version, lease: current };
  const { observation, standing } = observe(previous, seen, clock.monotonic());
  const process = isSameProcess(current.process, processes.self())
    ? 'unknown'
    : processes.judge(current.process);
  const view = { current, process, standing, changed: observation.changes > 0 } as const;
  return { decision: judgeRegistration(view, { supersede, replaces }), observation, current };
}

function newLease({ random, processes }: RegistrationPorts, registrant: Registrant): StarLease {
  const incarnation = random.hex(16);
  return firstLease({ ...registrant, incarnation, process: processes.self() }, random.hex(8));
}

function starInUse(star: string, holder: StarLease): EngineError {
  const { process, address, incarnation } = holder;
  return new EngineError('STAR_IN_USE', 'another live process runs this star', {
    retryAfterMillis: holder.timeoutMillis,
    details: { star, hostName: process.hostName, pid: process.pid, address, incarnation },
  });
}
