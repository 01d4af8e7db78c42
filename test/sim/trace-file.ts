/**
 * The history of one seed as JSON lines that an inspector of the Stately wire format reads: an actor
 * for the world and one for each process, bucket and metastore, then one event a line of the history.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { History } from '../../src/testing/history.ts';

const VERSION = '1';
const WORLD = 'world';

/** A history that also writes what it is told. */
export class TraceFile extends History {
  readonly #file: number;
  readonly #actors = new Set<string>();

  /** @throws Error when the file cannot be written. */
  constructor(path: string, keepLines: number) {
    super({ keepLines });
    this.#file = openSync(path, 'w');
    this.#actor(WORLD, 0);
  }

  override note(line: string): void {
    super.note(line);
    const [millis = '0', name = WORLD, ...rest] = line.split(' ');
    // A process is named with the number of its start behind it.
    const isActor = /\.\d+$/.test(name) || /^bucket-\d+$/.test(name) || name === 'metastore';
    const actor = isActor ? name : WORLD;
    this.#actor(actor, Number(millis));
    const text = isActor ? rest.join(' ') : line.slice(millis.length + 1);
    const type = isActor ? (rest[0] ?? 'note').replace(/:$/, '') : 'note';
    this.#write('@xstate.event', actor, Number(millis), { event: { type, text } });
  }

  close(): void {
    closeSync(this.#file);
  }

  #actor(name: string, millis: number): void {
    if (this.#actors.has(name)) return;
    this.#actors.add(name);
    this.#write('@xstate.actor', name, millis, {
      name,
      ...(name === WORLD ? {} : { parentId: WORLD }),
      definition: JSON.stringify({ id: name }),
      snapshot: { status: 'active' },
    });
  }

  #write(type: string, sessionId: string, millis: number, more: object): void {
    const common = { type, sessionId, rootId: WORLD, createdAt: String(millis), id: null };
    writeSync(this.#file, `${JSON.stringify({ ...common, ...more, _version: VERSION })}\n`);
  }
}
