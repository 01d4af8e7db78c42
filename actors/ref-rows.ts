/**
 * Builds the chain of ref rows of one stream. Absorb, settlers, rolls and Finish all build through
 * here, in any number of processes at once; `test/model/ref-rows.test.ts` explores their races.
 * Rules of a row: src/protocol/ref-rows.ts. Source: DESIGN "Ref rows form one chain per stream".
 */
import { assert, assertNever } from '../src/lib/assert.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import { EngineError } from '../src/lib/errors.ts';
import { sleep, throwIfAborted } from '../src/lib/wait.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import type { SourceEntry } from '../src/protocol/coverage.ts';
import { refRowKey, refsPrefix, unpad } from '../src/protocol/keys.ts';
import { encodeRecordValue, parseRecordValue, refRow } from '../src/protocol/records.ts';
import type { RefRow } from '../src/protocol/records.ts';
import { buildStep, rowFault } from '../src/protocol/ref-rows.ts';
import type { BuilderView, NewRefRow, RowSource } from '../src/protocol/ref-rows.ts';
import { META_VALUE_BYTES_MAX, partitionOf } from '../src/ports/metastore.ts';
import type { MetaEntry, MetaVersion } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

export type { SourceEntry };

type RowPorts = Pick<StarPorts, 'clock' | 'random' | 'metastore' | 'metrics'>;

/** A row together with the version under which it was read. */
export interface StoredRow {
  readonly row: RefRow;
  readonly version: MetaVersion;
}

export interface ExtendRequest extends RowSource {
  readonly streamId: string;
  /** Entries of the stream from flights of the epoch below its cut (or acknowledged), ascending. */
  readonly entries: readonly SourceEntry[];
  /** A first look at the last row, as old as it may be. */
  readonly seen?: SeenLastRow | undefined;
}

export interface SeenLastRow {
  readonly last: StoredRow | undefined;
}

export type ExtendResult =
  /** The last row, as read after the last own write, reaches the end of every entry. */
  | { readonly kind: 'covered'; readonly end: number; readonly last: StoredRow | undefined }
  /** Rows end at `end`, the next entry begins at `next`: an older epoch is not settled (S4). */
  | { readonly kind: 'gap'; readonly end: number; readonly next: number };

export type MarkResult =
  | { readonly kind: 'marked'; readonly last: StoredRow }
  /** The row is not as it was read: somebody else changed, extended or removed it. */
  | { readonly kind: 'moved'; readonly last: StoredRow | undefined };

const STALL = { firstMillis: 20, maxMillis: 1_000 };
const STALLED_ROUNDS_MAX = 8;

/** A row and the value that was made of it. */
interface WrittenRow {
  readonly row: RefRow;
  readonly value: Uint8Array;
}

/**
 * The last row of the stream; undefined when it has none. The read may be stale, as all reads.
 *
 * @param written - not parsed again when it is what was read: a row of thousands of spans takes
 *   milliseconds, in which nobody appends.
 */
export async function readLastRow(
  ports: Pick<StarPorts, 'metastore'>,
  streamId: string,
  options: Pick<WaitOptions, 'signal'> = {},
  written?: WrittenRow,
): Promise<StoredRow | undefined> {
  const entry = await ports.metastore.lastChild(refsPrefix(streamId), options);
  if (entry === undefined) return undefined;
  if (written !== undefined && isWritten(streamId, entry, written)) {
    return { row: written.row, version: entry.version };
  }
  return parseRow(streamId, entry);
}

function isWritten(streamId: string, { key, value }: MetaEntry, written: WrittenRow): boolean {
  return (
    key === refRowKey(streamId, written.row.start) && Buffer.compare(value, written.value) === 0
  );
}

/** @throws EngineError METASTORE_CORRUPT */
export function parseRow(streamId: string, entry: MetaEntry): StoredRow {
  const row = parseRecordValue(refRow, entry.key, entry.value);
  const fault = rowFault(row, unpad(entry.key.slice(refsPrefix(streamId).length)));
  if (fault !== undefined) {
    throw new EngineError('METASTORE_CORRUPT', 'a ref row contradicts itself', {
      details: { key: entry.key, problem: fault },
    });
  }
  return { row, version: entry.version };
}

/**
 * Extends the stream's chain over the given entries; entries that rows cover already are skipped,
 * so that a repeated or resumed call changes nothing.
 *
 * Reads the last row, creates the row at its end if absent, and after every answer, a conflict too,
 * reads the last row again and goes on from there. Going on from the row at one's own key instead
 * leaves positions uncovered: that row may be a late one, below rows that were removed behind trim.
 * One create is outstanding at a time. S2: safe beside any other builder. S4: builds no row above a
 * gap, and reports one only from a read that is not stale.
 *
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_INDETERMINATE (a row may still appear;
 *   calling again is safe), METASTORE_CORRUPT, INVARIANT, ABORTED
 */
export async function extendRows(
  ports: RowPorts,
  request: ExtendRequest,
  options: WaitOptions = {},
): Promise<ExtendResult> {
  const { streamId, entries } = request;
  const { clock, random } = ports;
  let stalledRounds = 0;
  let view: BuilderView = { last: undefined, isFresh: false, triedAt: undefined };
  const { seen = { last: await readLastRow(ports, streamId, options) } } = request;
  let { last } = seen;
  for (;;) {
    throwIfAborted(options.signal, 'extending rows');
    view = { ...view, last: last?.row };
    const step = buildStep(view, entries, request, META_VALUE_BYTES_MAX);
    switch (step.kind) {
      case 'covered':
        return { kind: 'covered', end: step.end, last };
      case 'gap':
        return step;
      case 'create': {
        const written = await createRow(ports, streamId, step.row, options);
        // Applied or not: that answer may itself come from reading back, so it makes no read fresh.
        view = { ...view, isFresh: false, triedAt: step.row.start };
        last = await readLastRow(ports, streamId, options, written);
        stalledRounds = 0;
        break;
      }
      case 'stalled':
        if (++stalledRounds > STALLED_ROUNDS_MAX) throw stalledError(streamId, view.triedAt!);
        await sleep(clock, backoffMillis(random, stalledRounds, STALL), options.signal);
        last = await readLastRowFresh(ports, streamId, options);
        break;
      case 'readFresh':
        last = await readLastRowFresh(ports, streamId, options);
        view = { ...view, isFresh: true };
        break;
      default:
        assertNever(step);
    }
  }
}

/** Creates the row, unless somebody else holds its key; answers what it wrote, or tried to. */
async function createRow(
  ports: RowPorts,
  streamId: string,
  row: NewRefRow,
  options: WaitOptions,
): Promise<WrittenRow | undefined> {
  const { clock, random, metastore, metrics } = ports;
  let written: WrittenRow | undefined;
  const put = await conditionalPut(
    metastore,
    {
      key: refRowKey(streamId, row.start),
      expected: 'absent',
      encode: (attempt) => {
        const whole: RefRow = { ...row, attempt };
        written = { row: whole, value: encodeRecordValue(whole) };
        return written.value;
      },
    },
    { clock, random, ...options },
  );
  metrics.counter(put.kind === 'applied' ? 'rows.created' : 'rows.conflicts').add();
  return written;
}

/**
 * Writes the clean-release mark on the tail row (N), by a CAS from the row as it was read: the
 * final write of a Finish before the released record. A repeated call with the same mark succeeds.
 *
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_INDETERMINATE, METASTORE_CORRUPT, ABORTED
 */
export async function markTail(
  ports: RowPorts,
  streamId: string,
  tail: StoredRow,
  mark: NonNullable<RefRow['mark']>,
  options: WaitOptions = {},
): Promise<MarkResult> {
  assert(mark.tail === tail.row.end, 'the mark names the end of the row that takes it (N)');
  const { clock, random, metastore } = ports;
  const key = refRowKey(streamId, tail.row.start);
  let marked: RefRow | undefined;
  const put = await conditionalPut(
    metastore,
    {
      key,
      expected: tail.version,
      encode: (attempt) => {
        marked = { ...tail.row, mark, attempt };
        return encodeRecordValue(marked);
      },
    },
    { clock, random, ...options },
  );
  if (put.kind === 'applied') {
    assert(marked !== undefined, 'an applied write was encoded');
    return { kind: 'marked', last: { row: marked, version: put.version } };
  }
  // What the row says decides, not the error: an earlier call may have written this very mark.
  const current = put.current === undefined ? undefined : parseRow(streamId, put.current);
  if (current !== undefined && sameMark(current.row.mark, mark)) {
    return { kind: 'marked', last: current };
  }
  return { kind: 'moved', last: await readLastRowFresh(ports, streamId, options) };
}

function sameMark(a: RefRow['mark'], b: NonNullable<RefRow['mark']>): boolean {
  return (
    a !== undefined &&
    a.tail === b.tail &&
    a.tenure.star === b.tenure.star &&
    a.tenure.incarnation === b.tenure.incarnation &&
    a.tenure.class === b.tenure.class &&
    a.tenure.epoch === b.tenure.epoch
  );
}

/** The last row by a read that sees every write acknowledged before the call. */
export async function readLastRowFresh(
  ports: Pick<StarPorts, 'metastore'>,
  streamId: string,
  options: Pick<WaitOptions, 'signal'> = {},
): Promise<StoredRow | undefined> {
  await ports.metastore.barrier(partitionOf(refsPrefix(streamId)), options);
  return readLastRow(ports, streamId, options);
}

function stalledError(streamId: string, end: number): EngineError {
  return new EngineError('METASTORE_UNAVAILABLE', 'the rows of a stream do not advance', {
    details: { stream: streamId, end },
  });
}
