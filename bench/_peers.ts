/**
 * Logs that somebody else would build a stream on, each made durable: an append is answered when it
 * survives a loss of power. All that is in flight goes into one group, as each of them does it best.
 */
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { open as openLmdb } from 'lmdb';

export interface PeerLog {
  append(body: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

export interface Peer {
  readonly name: string;
  /** What makes it durable, or that nothing does. */
  readonly durability: string;
  /** The folder is empty. */
  open(folder: string): Promise<PeerLog>;
}

/** Packages that only this benchmark needs, so that nobody else has to compile them. */
export const PEERS_FOLDER = resolve('bench/peers');
const requirePeer = createRequire(join(PEERS_FOLDER, 'package.json'));

export const PEERS: readonly Peer[] = [
  {
    name: 'better-sqlite3',
    durability: 'WAL, synchronous=FULL, a transaction a group',
    open: openSqlite,
  },
  {
    name: 'lmdb',
    durability: 'a synced commit a group',
    open: openLmdbLog,
  },
  {
    name: 'hypercore',
    durability: 'fdatasync of its write-ahead log after a group, which it leaves to others',
    open: (folder) => openHypercore(folder, true),
  },
  {
    name: 'hypercore, not durable',
    durability: 'none: as it comes',
    open: (folder) => openHypercore(folder, false),
  },
];

interface Waiting {
  readonly body: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Whatever came while a group was being stored is the next group. */
class Groups implements PeerLog {
  readonly #store: (bodies: readonly Uint8Array[]) => unknown;
  readonly #end: () => unknown;
  #waiting: Waiting[] = [];
  #isStoring = false;

  constructor(store: (bodies: readonly Uint8Array[]) => unknown, end: () => unknown) {
    this.#store = store;
    this.#end = end;
  }

  append(body: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ body, resolve, reject });
      if (!this.#isStoring) void this.#storeAll();
    });
  }

  async close(): Promise<void> {
    await this.#end();
  }

  async #storeAll(): Promise<void> {
    this.#isStoring = true;
    // Callers of the same turn share the group, and those that were answered come again.
    await turn();
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      try {
        await this.#store(group.map(({ body }) => body));
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
      await turn();
    }
    this.#isStoring = false;
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

interface SqliteDatabase {
  pragma(text: string): unknown;
  exec(text: string): unknown;
  prepare(text: string): { run(...values: unknown[]): unknown };
  transaction<T>(work: (value: T) => void): (value: T) => void;
  close(): void;
}

async function openSqlite(folder: string): Promise<PeerLog> {
  const Database = requirePeer('better-sqlite3') as new (path: string) => SqliteDatabase;
  const database = new Database(join(folder, 'log.sqlite'));
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  database.exec('CREATE TABLE log (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)');
  const insert = database.prepare('INSERT INTO log (body) VALUES (?)');
  const store = database.transaction((bodies: readonly Uint8Array[]) => {
    for (const body of bodies) insert.run(body);
  });
  return new Groups(store, () => database.close());
}

async function openLmdbLog(folder: string): Promise<PeerLog> {
  const database = openLmdb<Uint8Array, number>({
    path: join(folder, 'log.lmdb'),
    keyEncoding: 'uint32',
    encoding: 'binary',
    // A commit is answered when it is on disk.
    overlappingSync: false,
  });
  let next = 0;
  const store = (bodies: readonly Uint8Array[]): Promise<void> =>
    database.transaction(() => {
      for (const body of bodies) void database.put(next++, body);
    });
  return new Groups(store, () => database.close());
}

interface Hypercore {
  ready(): Promise<void>;
  append(blocks: readonly Uint8Array[]): Promise<unknown>;
  close(): Promise<void>;
}

async function openHypercore(folder: string, isSynced: boolean): Promise<PeerLog> {
  const Core = requirePeer('hypercore') as new (path: string) => Hypercore;
  const core = new Core(join(folder, 'core'));
  await core.ready();
  const logs = new WriteAheadLogs(join(folder, 'core'));
  const store = async (bodies: readonly Uint8Array[]): Promise<void> => {
    await core.append(bodies);
    if (isSynced) await logs.sync();
  };
  return new Groups(store, async () => {
    await core.close();
    logs.close();
  });
}

/** The files in which RocksDB, below hypercore, notes what is not in its tables yet. */
class WriteAheadLogs {
  readonly #folder: string;
  readonly #open = new Map<string, number>();

  constructor(root: string) {
    const entries = fs.readdirSync(root, { recursive: true, withFileTypes: true });
    const log = entries.find(({ name }) => name.endsWith('.log'));
    if (log === undefined) throw new Error('hypercore has no write-ahead log');
    this.#folder = log.parentPath;
  }

  async sync(): Promise<void> {
    const names = (await fs.promises.readdir(this.#folder)).filter((name) => name.endsWith('.log'));
    for (const name of names) {
      if (!this.#open.has(name)) this.#open.set(name, fs.openSync(join(this.#folder, name), 'r+'));
    }
    for (const [name, file] of this.#open) {
      if (!names.includes(name)) {
        fs.closeSync(file);
        this.#open.delete(name);
      }
    }
    await Promise.all([...this.#open.values()].map(fdatasync));
  }

  close(): void {
    for (const file of this.#open.values()) fs.closeSync(file);
  }
}

function fdatasync(file: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(file, (error) => (error === null ? resolve() : reject(error)));
  });
}
