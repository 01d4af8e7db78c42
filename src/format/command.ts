/**
 * Command records, as the S2 protocol has them: exactly one header, its name empty, its value the
 * command. `fence` installs the body as fencing token, `trim` moves the trim point to the body's
 * 8-byte big-endian number.
 */
import { assert } from '../lib/assert.ts';
import { EngineError } from '../lib/errors.ts';
import {
  isWellFormed,
  readUint64,
  utf8Decode,
  utf8Encode,
  viewOf,
  writeUint64,
  type Bytes,
} from './bytes.ts';
import { FENCING_TOKEN_BYTES_MAX } from './flight-entry.ts';

export type Command =
  | { readonly command: 'fence'; readonly fencingToken: string }
  | { readonly command: 'trim'; readonly trimPoint: number };

/** A record that carries the command; `headers` and `body` go into `encodeRecord` as they are. */
export interface EncodedCommand {
  readonly headers: readonly (readonly [name: Uint8Array, value: Uint8Array])[];
  readonly body: Uint8Array;
}

const NO_NAME = new Uint8Array(0);
const FENCE = 'fence';
const TRIM = 'trim';
const FENCE_HEADERS: EncodedCommand['headers'] = [[NO_NAME, utf8Encode(FENCE)]];
const TRIM_HEADERS: EncodedCommand['headers'] = [[NO_NAME, utf8Encode(TRIM)]];
const TRIM_BODY_BYTES = 8;

/** Builds the record of a command; `commandOf` reads it back. */
export function encodeCommand(command: Command): EncodedCommand {
  if (command.command === 'fence') {
    const body = utf8Encode(command.fencingToken);
    assert(isWellFormed(command.fencingToken), 'fencing token is not well-formed text');
    assert(body.length <= FENCING_TOKEN_BYTES_MAX, 'fencing token is too long');
    return { headers: FENCE_HEADERS, body };
  }
  const body = new Uint8Array(TRIM_BODY_BYTES);
  writeUint64(viewOf(body), 0, command.trimPoint);
  return { headers: TRIM_HEADERS, body: body.reverse() };
}

/**
 * The command that a record carries; `undefined` for a record of data. A trim point above every
 * possible sequence number comes back as the highest one: it means "everything" either way.
 *
 * @throws {EngineError} `INVALID_RECORD` for a record with an empty header name that is no command.
 */
export function commandOf(record: {
  readonly headers: readonly (readonly [name: Bytes, value: Bytes])[];
  readonly body: Bytes;
}): Command | undefined {
  const { headers } = record;
  if (headers.length === 0) return undefined;
  if (!headers.some(([name]) => name.length === 0)) return undefined;
  if (headers.length !== 1) throw invalid('a command record has exactly one header');
  const command = textOf(headers[0]![1]);
  if (command === FENCE) return fenceOf(record.body);
  if (command === TRIM) return trimOf(record.body);
  throw invalid('unknown command');
}

function fenceOf(body: Bytes): Command {
  const bytes = bytesOf(body);
  if (bytes.length > FENCING_TOKEN_BYTES_MAX) throw invalid('fencing token is too long');
  const fencingToken = utf8Decode(bytes);
  if (fencingToken === undefined) throw invalid('fencing token is not UTF-8');
  return { command: 'fence', fencingToken };
}

function trimOf(body: Bytes): Command {
  const bytes = bytesOf(body);
  if (bytes.length !== TRIM_BODY_BYTES) throw invalid('trim point is not 8 bytes');
  const trimPoint = readUint64(viewOf(Uint8Array.from(bytes).reverse()), 0);
  return { command: 'trim', trimPoint: trimPoint ?? Number.MAX_SAFE_INTEGER };
}

function bytesOf(bytes: Bytes): Uint8Array {
  return typeof bytes === 'string' ? utf8Encode(bytes) : bytes;
}

/** Longer than any command is no command; do not decode it. */
function textOf(bytes: Bytes): string | undefined {
  if (typeof bytes === 'string') return bytes;
  return bytes.length > FENCE.length ? undefined : utf8Decode(bytes);
}

function invalid(reason: string): EngineError {
  return new EngineError('INVALID_RECORD', 'malformed command record', { details: { reason } });
}
