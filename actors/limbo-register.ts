/**
 * Limbo as others see it: a stream whose Finish could not land is noted in the metastore while it is
 * kept, so that `asterlog status` lists it from any process. Diagnosis only, nothing is decided from
 * it: writes are best effort, and a note counts as long as `writer` names the tenure it is about.
 * Source: DESIGN "Finish (N)".
 */
import { forEachBounded } from '../src/lib/bounded.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { limboKey, limboPrefix, writerKey } from '../src/protocol/keys.ts';
import {
  encodeRecordValue,
  limboRecord,
  parseRecordValue,
  writerRecord,
  type LimboRecord,
} from '../src/protocol/records.ts';
import { conditionalDelete, conditionalPut, type ConditionalContext } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

type RegisterPorts = Pick<StarPorts, 'clock' | 'random' | 'metastore' | 'log'>;

export type LimboNote = Omit<LimboRecord, 'attempt'>;

const MESSAGE_LENGTH_MAX = 400;
const READ_CONCURRENCY = 16;

export class LimboRegister {
  readonly #ports: RegisterPorts;
  readonly #signal: AbortSignal;
  /** One write a stream at a time, in the order of what they say. */
  readonly #writes = new Map<string, Promise<void>>();

  constructor(ports: RegisterPorts, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  note(note: LimboNote): void {
    const message = note.message.slice(0, MESSAGE_LENGTH_MAX);
    this.#enqueue(note, (context) => putNote(this.#ports, { ...note, message }, context));
  }

  clear(note: Pick<LimboNote, 'star' | 'stream'>): void {
    this.#enqueue(note, (context) => removeNote(this.#ports, note, context));
  }

  /** Removes what incarnations before this one noted of the star; the streams were settled since. */
  sweep(star: string, incarnation: string): void {
    const { metastore } = this.#ports;
    const signal = this.#signal;
    const sweep = async (): Promise<void> => {
      for (const { key, value } of await metastore.children(limboPrefix(star), { signal })) {
        const note = parseRecordValue(limboRecord, key, value);
        if (note.incarnation !== incarnation) this.clear(note);
      }
    };
    sweep().catch(() => undefined);
  }

  #enqueue(
    { star, stream }: Pick<LimboNote, 'star' | 'stream'>,
    write: (context: ConditionalContext) => Promise<void>,
  ): void {
    const { clock, random, log } = this.#ports;
    const before = this.#writes.get(stream) ?? Promise.resolve();
    const after = before
      .then(() => write({ clock, random, signal: this.#signal }))
      .catch((cause: unknown) => {
        const { code } = toEngineError(cause);
        if (!this.#signal.aborted) log.warn({ star, stream, code }, 'limbo was not noted');
      })
      .finally(() => {
        if (this.#writes.get(stream) === after) this.#writes.delete(stream);
      });
    this.#writes.set(stream, after);
  }
}

/** What stands noted of a star's streams and still holds, by stream id. */
export async function readLimbo(
  { metastore }: Pick<StarPorts, 'metastore'>,
  star: string,
  signal?: AbortSignal,
): Promise<readonly LimboRecord[]> {
  const found: LimboRecord[] = [];
  const entries = await metastore.children(limboPrefix(star), { signal });
  await forEachBounded(entries, READ_CONCURRENCY, async ({ key, value }) => {
    const note = parseRecordValue(limboRecord, key, value);
    const at = writerKey(note.stream);
    const writer = await metastore.get(at, { signal });
    if (writer === undefined) return;
    const record = parseRecordValue(writerRecord, at, writer.value);
    if (record.kind !== 'tenure') return;
    if (record.tenure.star === star && record.tenure.incarnation === note.incarnation) {
      found.push(note);
    }
  });
  return found.sort((a, b) => (a.stream < b.stream ? -1 : 1));
}

/** @throws EngineError what the metastore throws */
export async function removeNote(
  { metastore }: Pick<StarPorts, 'metastore'>,
  { star, stream }: Pick<LimboNote, 'star' | 'stream'>,
  context: ConditionalContext,
): Promise<void> {
  const key = limboKey(star, stream);
  const entry = await metastore.get(key, { signal: context.signal });
  if (entry === undefined) return;
  await conditionalDelete(metastore, { key, expected: entry.version }, context);
}

async function putNote(
  { metastore }: Pick<StarPorts, 'metastore'>,
  note: LimboNote,
  context: ConditionalContext,
): Promise<void> {
  const key = limboKey(note.star, note.stream);
  const put = { key, encode: (attempt: string) => encodeRecordValue({ ...note, attempt }) };
  const first = await conditionalPut(metastore, { ...put, expected: 'absent' }, context);
  if (first.kind === 'applied' || first.current === undefined) return;
  // Left over by an earlier incarnation.
  const { version } = first.current;
  const second = await conditionalPut(metastore, { ...put, expected: version }, context);
  if (second.kind === 'applied') return;
  throw new EngineError('METASTORE_UNAVAILABLE', 'a note changed while it was written', {
    details: { key },
  });
}
