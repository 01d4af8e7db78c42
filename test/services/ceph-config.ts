import { join } from 'node:path';
import type { Ceph } from './ceph-packages.ts';

export interface ZonePlace {
  readonly folder: string;
  readonly cluster: string;
  /** The first of `PORTS` that no other zone uses: the monitor's, the gateway's, the object store's. */
  readonly ports: number;
}

export const PORTS = 20;

export function monitorPort({ ports }: ZonePlace): number {
  return ports;
}

export function gatewayPort({ ports }: ZonePlace): number {
  return ports + 1;
}

/**
 * Clients get the map of monitors as a file. Without it they learn the id of the cluster from the
 * monitor, and a command that is sent before that is refused with `wrong fsid`: an object store that
 * notes its place when it starts dies of it once in about ten times. So it does not note its place, either.
 */
export function configuration({ libraries }: Ceph, place: ZonePlace): string {
  const { folder, cluster, ports } = place;
  const file = (name: string): string => join(folder, name);
  return `[global]
fsid = ${cluster}
monmap = ${file('monmap')}
mon_host = v1:127.0.0.1:${monitorPort(place)}
mon_client_hunt_interval = 0.5
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr2 = false
ms_bind_port_min = ${ports + 2}
ms_bind_port_max = ${ports + PORTS - 1}
run_dir = ${folder}
admin_socket = ${file('$name.asok')}
log_file = ${file('$name.log')}
mon_cluster_log_file = ${file('cluster.log')}
crash_dir = ${file('crash')}
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
rgw_rados_pool_pg_num_min = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_crush_update_on_start = false
osd_class_update_on_start = false
mon_data_avail_crit = 1
mon_data_avail_warn = 1
mon_osd_min_in_ratio = 0
mon_max_pg_per_osd = 1000
paxos_propose_interval = 0.05
erasure_code_dir = ${join(libraries, 'ceph/erasure-code')}
osd_class_dir = ${join(libraries, 'rados-classes')}
plugin_dir = ${join(libraries, 'ceph')}
[mon.a]
mon_data = ${file('mon')}
[osd.0]
osd_data = ${file('osd')}
osd_objectstore = bluestore
bluestore_block_size = 8589934592
bluestore_block_db_create = false
bluestore_block_wal_create = false
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:${gatewayPort(place)} tcp_nodelay=1
rgw_data = ${file('rgw')}
rgw_dns_name = localhost
rgw_thread_pool_size = 128
`;
}
