/**
 * Effects of a Finish: rows reach the tail, the mark stands on the tail row, the writer record leaves
 * the tenure. The order is in machines/stream.machine.ts. Source: DESIGN "Finish (N)", T5.
 */
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { refsPrefix, streamKey } from '../src/protocol/keys.ts';
import type { StreamRecord } from '../src/protocol/records.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import type { StreamEvent, StreamOutcome } from '../machines/stream.machine.ts';
import { conditionalDelete } from './conditional-write.ts';
import type { EpochActor } from './epoch.actor.ts';
import { removeName } from './names.ts';
import type { StarPorts } from './ports.ts';
import { markTail, readLastRowFresh, type StoredRow } from './ref-rows.ts';
import { untilAvailable } from './until-available.ts';
import type { WriterTenure } from './writer-tenure.ts';

export interface FinishInput {
  readonly ports: StarPorts;
  readonly record: StreamRecord;
  readonly writer: WriterTenure;
  /** The star's current epoch; the stream has entered it. */
  readonly epoch: () => EpochActor;
  readonly signal: AbortSignal;
}

export class StreamFinish {
  readonly #input: FinishInput;
  #last: StoredRow | undefined;

  constructor(input: FinishInput) {
    this.#input = input;
  }

  async flushRows(tail: number): Promise<StreamEvent> {
    const { ports, record, epoch, signal } = this.#input;
    const flushed = await epoch().absorber.flush(record.stream, signal);
    this.#last = flushed ?? (await readLastRowFresh(ports, record.stream, { signal }));
    const end = this.#last?.row.end ?? 0;
    // Rows beyond the tail are a successor's, rows that are gone went with a stream that it deleted:
    // then this tenure is over, and it is not this star's word.
    if (end !== tail && (await this.#isOver())) return { type: 'writer.moved' };
    assert(end === tail, 'N the rows end at the tail that is released');
    return { type: 'rows.flushed', end };
  }

  async markTail(tail: number, outcome: StreamOutcome): Promise<StreamEvent> {
    if (outcome === 'deleted' || tail === 0) return { type: 'tail.marked' };
    const { ports, record, writer, signal } = this.#input;
    assert(this.#last !== undefined, 'a tail above 0 has a row');
    const mark = { tenure: writer.own, tail };
    const result = await markTail(ports, record.stream, this.#last, mark, { signal });
    if (result.kind === 'marked') return { type: 'tail.marked' };
    if (await this.#isOver()) return { type: 'writer.moved' };
    throw new EngineError('METASTORE_UNAVAILABLE', 'the tail row moved while it was marked', {
      details: { stream: record.stream, tail },
    });
  }

  /** From here on the stream is not served, whatever the answer is (L2). */
  async leave(tail: number, outcome: StreamOutcome): Promise<StreamEvent> {
    const { writer } = this.#input;
    const left = await writer.leave(
      outcome === 'deleted' ? { kind: 'deleted' } : { kind: 'released', tail },
    );
    return { type: left ? 'writer.left' : 'writer.moved' };
  }

  /** T5: the stream is deleted already; name, rows and record are garbage whenever found. */
  async cleanUp(): Promise<StreamEvent> {
    const { ports, record, signal } = this.#input;
    const { stream, basin, name } = record;
    const context = { clock: ports.clock, random: ports.random, signal };
    await untilAvailable(ports, signal, async () => {
      await removeName(ports, basin, name, stream, { signal });
      for (;;) {
        const rows = await ports.metastore.children(refsPrefix(stream), { signal, limit: 100 });
        if (rows.length === 0) break;
        for (const { key, version } of rows) {
          await conditionalDelete(ports.metastore, { key, expected: version }, context);
        }
      }
      const key = streamKey(stream);
      const entry = await ports.metastore.get(key, { signal });
      if (entry === undefined) return;
      await conditionalDelete(ports.metastore, { key, expected: entry.version }, context);
    });
    return { type: 'garbage.removed' };
  }

  /** Whether `writer` names somebody else's tenure by now, from a read that is not stale. */
  async #isOver(): Promise<boolean> {
    const { ports, writer, signal } = this.#input;
    await ports.metastore.barrier(partitionOf(writer.key), { signal });
    const entry = await ports.metastore.get(writer.key, { signal });
    return entry?.version !== writer.version;
  }
}
