/** One Ceph cluster of a monitor, an object store and an S3 gateway, on loopback. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { configuration, gatewayPort, monitorPort, PORTS, type ZonePlace } from './ceph-config.ts';
import { cephPackages, type Ceph } from './ceph-packages.ts';
import { Daemon } from './daemon.ts';
import { freePorts } from './ports.ts';
import { removeFolder, scratchFolder } from './scratch.ts';

const run = promisify(execFile);

const START_MILLIS = 60_000;
const CALL_MILLIS = 30_000;
const CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'testtesttest' };

/** Starts a zone; one whose daemons die or hang is begun again once, elsewhere. */
export async function startCephZone(ceph: Ceph): Promise<CephZone> {
  try {
    return await startOnce(ceph);
  } catch (error) {
    console.log(`a Ceph zone did not start, a second try follows: ${String(error)}`);
    return await startOnce(ceph);
  }
}

/** What `start` makes of the packages, or why it cannot be had; the logs are printed then. */
export async function whereCephRuns<T>(
  start: (ceph: Ceph) => Promise<T>,
): Promise<T | { readonly reason: string }> {
  const ceph = await cephPackages();
  if ('reason' in ceph) return { reason: `no packages of Ceph: ${ceph.reason}` };
  try {
    return await start(ceph);
  } catch (error) {
    console.log(`Ceph does not run here: ${String(error)}`);
    return { reason: `Ceph does not run here: ${String(error).split('\n', 1)[0]!}` };
  }
}

async function startOnce(ceph: Ceph): Promise<CephZone> {
  const folder = await scratchFolder();
  const place = { folder, cluster: randomUUID(), ports: await freePorts(PORTS) };
  const zone = new CephZone(ceph, place);
  try {
    await zone.create();
    return zone;
  } catch (error) {
    const logs = await zone.logs();
    await zone.stop();
    throw new Error(`${String(error)}\n${logs}`, { cause: error });
  }
}

export class CephZone {
  readonly credentials = CREDENTIALS;
  readonly endpoint: string;
  readonly #packages: Ceph;
  readonly #place: ZonePlace;
  readonly #env: NodeJS.ProcessEnv;
  #daemons: Daemon[] = [];

  constructor(ceph: Ceph, place: ZonePlace) {
    this.#packages = ceph;
    this.#place = place;
    this.#env = { ...ceph.environment, CEPH_CONF: this.#file('ceph.conf') };
    this.endpoint = `http://127.0.0.1:${gatewayPort(place)}`;
  }

  async create(): Promise<void> {
    const { cluster } = this.#place;
    const store = randomUUID();
    const deadline = performance.now() + START_MILLIS;
    for (const name of ['mon', 'osd', 'rgw']) await mkdir(this.#file(name));
    await writeFile(this.#file('keyring'), '');
    await writeFile(this.#file('ceph.conf'), configuration(this.#packages, this.#place));
    const monmap = this.#file('monmap');
    const address = `[v1:127.0.0.1:${monitorPort(this.#place)}]`;
    await this.#call('monmaptool', '--create', '--fsid', cluster, '--addv', 'a', address, monmap);
    const keyring = ['--keyring', this.#file('keyring')];
    await this.#call('ceph-mon', '-i', 'a', '--mkfs', '--monmap', monmap, ...keyring);
    this.#startMonitor();
    await this.#until(deadline, () => this.#admin('osd', 'new', store));
    await this.#call('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', store);
    const position = ['osd.0', '1.0', 'host=localhost', 'root=default'];
    await this.#until(deadline, () => this.#admin('osd', 'crush', 'add', ...position));
    this.#startStore();
    await this.#startGateway(deadline);
    const { accessKeyId, secretAccessKey } = CREDENTIALS;
    const keys = [`--access-key=${accessKeyId}`, `--secret=${secretAccessKey}`];
    const user = ['user', 'create', '--uid=test', '--display-name=test', ...keys];
    await this.#call('radosgw-admin', '-n', 'client.rgw', ...user);
  }

  /** SIGKILL of everything; what was acknowledged stays on disk. */
  async kill(): Promise<void> {
    const daemons = this.#daemons.splice(0);
    await Promise.all(daemons.map((daemon) => daemon.kill()));
  }

  /** After `kill`, at the same place. */
  async restart(): Promise<void> {
    const deadline = performance.now() + START_MILLIS;
    this.#startMonitor();
    this.#startStore();
    await this.#startGateway(deadline);
  }

  /** SIGSTOP of the object store: the gateway takes requests and answers none. */
  freeze(): void {
    this.#store().signal('SIGSTOP');
  }

  /** What was asked meanwhile is done now. */
  thaw(): void {
    this.#store().signal('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    await removeFolder(this.#place.folder);
  }

  /** The last lines of each daemon's log. */
  async logs(): Promise<string> {
    const texts = this.#daemons.map(async ({ name }) => {
      const text = await readFile(this.#file(`${name}.log`), 'utf8').catch(() => '');
      return `-- ${name}\n${text.split('\n').slice(-15).join('\n')}`;
    });
    return (await Promise.all(texts)).join('\n');
  }

  #file(name: string): string {
    return join(this.#place.folder, name);
  }

  #call(program: string, ...args: string[]) {
    return run(program, args, { env: this.#env, timeout: CALL_MILLIS });
  }

  /** By whatever Python there is: that of the system, or that of the packages where it has none. */
  #admin(...args: string[]) {
    return this.#call('python3', this.#packages.adminProgram, ...args);
  }

  #start(name: string, ...command: string[]): void {
    this.#daemons.push(new Daemon(name, [...command, '-f'], this.#env));
  }

  #startMonitor(): void {
    this.#start('mon.a', 'ceph-mon', '-i', 'a');
  }

  #startStore(): void {
    this.#start('osd.0', 'ceph-osd', '-i', '0');
  }

  /** It answers when it has read from and written to the object store. */
  async #startGateway(deadline: number): Promise<void> {
    this.#start('client.rgw', 'radosgw', '-n', 'client.rgw');
    await this.#until(deadline, async () => {
      const answer = await fetch(this.endpoint, { signal: AbortSignal.timeout(CALL_MILLIS) });
      await answer.arrayBuffer();
    });
  }

  #store(): Daemon {
    const store = this.#daemons.find(({ name }) => name === 'osd.0');
    if (store === undefined) throw new Error('the zone does not run');
    return store;
  }

  /** Tries again until the deadline, or until a daemon of the zone is gone. */
  async #until<T>(deadline: number, attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        const gone = this.#daemons.find(({ isOver }) => isOver);
        await gone?.untilEnd();
        if (performance.now() > deadline) throw error;
        await sleep(200);
      }
    }
  }
}
