/** One Ceph cluster of a monitor, an object store in memory and an S3 gateway, on loopback. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Ceph } from './ceph-packages.ts';

const run = promisify(execFile);

export interface CephZone {
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  stop(): Promise<void>;
}

let nextDaemonPorts = 17_000;
const DAEMONS = ['client.rgw', 'osd.0', 'mon.a'];
const CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'testtesttest' };

/** Daemons that race each other at their start may die of it: then all of it is begun again. */
export async function startCephZone(ceph: Ceph): Promise<CephZone> {
  for (let left = 2; ; left--) {
    try {
      return await startOnce(ceph);
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

async function startOnce(ceph: Ceph): Promise<CephZone> {
  const folder = await mkdtemp(join(tmpdir(), 'asterlog-zone-'));
  const [gatewayPort, monitorPort] = [await freePort(), await freePort()];
  const daemonPorts = (nextDaemonPorts += 100);
  const [cluster, store] = [randomUUID(), randomUUID()];
  const file = (name: string): string => join(folder, name);
  for (const name of ['mon', 'osd', 'rgw']) await mkdir(file(name));
  await writeFile(file('keyring'), '');
  await writeFile(
    file('ceph.conf'),
    configuration(ceph, { folder, cluster, monitorPort, gatewayPort, daemonPorts }),
  );
  const env = { ...ceph.environment, CEPH_CONF: file('ceph.conf') };
  const call = (program: string, ...args: string[]) => run(program, args, { env, timeout: 30_000 });
  const stop = async (): Promise<void> => {
    for (const daemon of DAEMONS) {
      const pid = Number(await readFile(file(`${daemon}.pid`), 'utf8').catch(() => ''));
      if (pid > 0) process.kill(pid, 'SIGKILL');
    }
    await sleep(200);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const address = `[v1:127.0.0.1:${monitorPort}]`;
    await call('monmaptool', '--create', '--fsid', cluster, '--addv', 'a', address, file('monmap'));
    const map = ['--monmap', file('monmap'), '--keyring', file('keyring')];
    await call('ceph-mon', '-i', 'a', '--mkfs', ...map);
    await call('ceph-mon', '-i', 'a');
    await until(() => call('ceph', 'osd', 'new', store));
    await call('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', store);
    const place = ['osd.0', '1.0', 'host=localhost', 'root=default'];
    await until(() => call('ceph', 'osd', 'crush', 'add', ...place));
    await call('ceph-osd', '-i', '0');
    await until(async () => {
      const { stdout } = await call('ceph', 'osd', 'stat');
      if (!stdout.includes('1 up')) throw new Error('the object store is not up yet');
    });
    await call('radosgw', '-n', 'client.rgw');
    const endpoint = `http://127.0.0.1:${gatewayPort}`;
    await until(() => call('curl', '-s', '-o', '/dev/null', endpoint));
    const keys = [
      `--access-key=${CREDENTIALS.accessKeyId}`,
      `--secret=${CREDENTIALS.secretAccessKey}`,
    ];
    const user = ['user', 'create', '--uid=test', '--display-name=test', ...keys];
    await call('radosgw-admin', '-n', 'client.rgw', ...user);
    return { endpoint, credentials: CREDENTIALS, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Place {
  readonly folder: string;
  readonly cluster: string;
  readonly monitorPort: number;
  readonly gatewayPort: number;
  /** The first of a range that no other zone uses: daemons of two would take each other for their own. */
  readonly daemonPorts: number;
}

function configuration({ libraries }: Ceph, place: Place): string {
  const { folder, cluster, monitorPort, gatewayPort, daemonPorts } = place;
  return `[global]
fsid = ${cluster}
mon_host = v1:127.0.0.1:${monitorPort}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr2 = false
ms_bind_port_min = ${daemonPorts}
ms_bind_port_max = ${daemonPorts + 90}
run_dir = ${folder}
admin_socket = ${folder}/$name.asok
pid_file = ${folder}/$name.pid
log_file = ${folder}/$name.log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
rgw_rados_pool_pg_num_min = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
mon_data_avail_crit = 1
mon_data_avail_warn = 1
mon_osd_min_in_ratio = 0
mon_max_pg_per_osd = 1000
paxos_propose_interval = 0.05
erasure_code_dir = ${libraries}/ceph/erasure-code
osd_class_dir = ${libraries}/rados-classes
plugin_dir = ${libraries}/ceph
[mon.a]
mon_data = ${folder}/mon
[osd.0]
osd_data = ${folder}/osd
osd_objectstore = memstore
memstore_device_bytes = 2147483648
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:${gatewayPort} tcp_nodelay=1
rgw_data = ${folder}/rgw
rgw_dns_name = localhost
rgw_thread_pool_size = 128
`;
}

/** The daemons race each other when they start. */
async function until(attempt: () => Promise<unknown>): Promise<void> {
  for (let left = 60; ; left--) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (left === 0) throw error;
      await sleep(300);
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
