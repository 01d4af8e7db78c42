/** Bounds and patience of connections between engines; tests shorten them. */
export interface PeerLimits {
  /** Connections that an engine accepts; more are dropped at once. */
  readonly connections: number;
  /** Channels of one connection: streams appended to and reads under way. */
  readonly channelsPerConnection: number;
  /** Bytes that may wait on the wire, per channel, for a side that does not receive. */
  readonly windowBytes: number;
  /** Of all header fields of a request together. */
  readonly headerBytes: number;
  /** A connection that has shown no token by then is dropped. */
  readonly headerMillis: number;
  /** A connection without channels is closed after this. */
  readonly idleMillis: number;
  /** How often the other side is asked for a sign of life, and how long it may take to answer. */
  readonly pingMillis: number;
  /** How long a connection may take to be made. */
  readonly connectMillis: number;
  /** At a close: what was sent may still go out for so long. */
  readonly flushMillis: number;
}

export const PEER_LIMITS: PeerLimits = Object.freeze({
  connections: 256,
  channelsPerConnection: 4_096,
  windowBytes: 1024 * 1024,
  headerBytes: 8 * 1024,
  headerMillis: 5_000,
  idleMillis: 60_000,
  pingMillis: 5_000,
  connectMillis: 5_000,
  flushMillis: 500,
});

/** Megabytes that node:http2 lets one connection hold before it refuses further channels. */
export const SESSION_MEMORY_MIB = 64;
