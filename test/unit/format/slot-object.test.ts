import { describe, expect, it } from 'vitest';
import { encodePoison } from '../../../src/format/poison.ts';
import { parsePreamble, PREAMBLE_BYTES, type Preamble } from '../../../src/format/preamble.ts';
import { inspectSlotObject, sameFlight } from '../../../src/format/slot-object.ts';
import { EXISTS_HEAD_BYTES } from '../../../src/ports/bucket-store.ts';
import { encodeFlight, FIELDS, golden, GOLDEN_BATCHES, GOLDEN_POISON, patched } from './samples.ts';

const flight = golden('flight-v1');
const poison = golden('poison-v1');
const OTHER_NONCE = 'ff'.repeat(16);
/** Where the golden flight's body starts. */
const BODY = 342;

function preambleOf(object: Uint8Array): Preamble {
  const read = parsePreamble(object);
  if (!read.ok) throw new Error(read.reason);
  return read.preamble;
}

describe('inspectSlotObject', () => {
  it.each([PREAMBLE_BYTES, EXISTS_HEAD_BYTES, BODY, flight.length])(
    'knows a flight by its first %i bytes',
    (length) => {
      const seen = inspectSlotObject(flight.subarray(0, length), flight.length, FIELDS);
      expect(seen).toEqual({ kind: 'flight', preamble: preambleOf(flight) });
    },
  );

  it.each([PREAMBLE_BYTES, poison.length])('knows poison by its first %i bytes', (length) => {
    const seen = inspectSlotObject(poison.subarray(0, length), poison.length, GOLDEN_POISON);
    expect(seen).toEqual({ kind: 'poison', preamble: preambleOf(poison) });
  });

  it('calls a flight of another nonce foreign', () => {
    const expected = { ...FIELDS, nonce: OTHER_NONCE };
    const seen = inspectSlotObject(flight, flight.length, expected);
    expect(seen).toEqual({ kind: 'foreign', preamble: preambleOf(flight) });
  });

  it('takes poison of any nonce for poison', () => {
    const expected = { ...GOLDEN_POISON, nonce: OTHER_NONCE };
    expect(inspectSlotObject(poison, poison.length, expected).kind).toBe('poison');
  });

  it.each([
    [{ star: 'maim' }, 'object of another star'],
    [{ epoch: 8 }, 'object of another epoch'],
    [{ slot: 2 }, 'object of another slot'],
  ])('calls an object in the wrong place corrupt: %j', (change, reason) => {
    const corrupt = { kind: 'corrupt', reason };
    expect(inspectSlotObject(flight, flight.length, { ...FIELDS, ...change })).toEqual(corrupt);
    const misplaced = { ...GOLDEN_POISON, ...change };
    expect(inspectSlotObject(poison, poison.length, misplaced)).toEqual(corrupt);
  });

  it('calls an object of another length corrupt, whether its end was read or not', () => {
    const corrupt = { kind: 'corrupt', reason: 'object length differs' };
    const longer = Buffer.concat([flight, Buffer.alloc(1)]);
    for (const head of [flight.subarray(0, 200), flight]) {
      expect(inspectSlotObject(head, flight.length - 1, FIELDS)).toEqual(corrupt);
      expect(inspectSlotObject(head, flight.length + 1, FIELDS)).toEqual(corrupt);
    }
    expect(inspectSlotObject(longer, longer.length, FIELDS)).toEqual(corrupt);
    expect(inspectSlotObject(longer, flight.length, FIELDS)).toEqual(corrupt);
  });

  it('calls what is cut off within the preamble corrupt, the empty object too', () => {
    for (let length = 0; length < PREAMBLE_BYTES; length++) {
      expect(inspectSlotObject(flight.subarray(0, length), length, FIELDS).kind).toBe('corrupt');
    }
  });

  it('finds damage in the part it was given, and only there', () => {
    const header = patched(flight, 200, [0xee]);
    const body = patched(flight, flight.length - 1, [0xee]);
    const kinds = (object: Uint8Array): string[] =>
      [200, BODY - 1, BODY, object.length - 1, object.length].map(
        (length) => inspectSlotObject(object.subarray(0, length), object.length, FIELDS).kind,
      );
    expect(kinds(header)).toEqual(['flight', 'flight', 'corrupt', 'corrupt', 'corrupt']);
    expect(kinds(body)).toEqual(['flight', 'flight', 'flight', 'flight', 'corrupt']);
  });

  it('passes on why bytes are no slot object', () => {
    const noise = new Uint8Array(300);
    expect(inspectSlotObject(noise, 300, FIELDS)).toEqual({
      kind: 'corrupt',
      reason: 'not a slot object',
    });
  });
});

describe('sameFlight', () => {
  const own = preambleOf(flight);

  it('holds for copies', () => {
    expect(sameFlight(own, preambleOf(flight.slice()))).toBe(true);
  });

  it('fails for another content of the same length, and for another nonce', () => {
    const [first, ...rest] = GOLDEN_BATCHES;
    const records = first!.records.map((record) => ({
      ...record,
      timestamp: record.timestamp - 1,
    }));
    const other = encodeFlight(FIELDS, [{ ...first!, records }, ...rest]).object;
    expect(other).toHaveLength(flight.length);
    expect(sameFlight(own, preambleOf(other))).toBe(false);
    const foreign = encodeFlight({ ...FIELDS, nonce: OTHER_NONCE }, GOLDEN_BATCHES).object;
    expect(sameFlight(own, preambleOf(foreign))).toBe(false);
  });

  it.each(Object.keys(own) as (keyof Preamble)[])('fails when the %s differs', (field) => {
    const value = own[field];
    const changed = { ...own, [field]: typeof value === 'number' ? value + 1 : `${value}x` };
    expect(sameFlight(own, changed)).toBe(false);
    expect(sameFlight(changed, own)).toBe(false);
  });

  it('fails for poison, even the same', () => {
    const dead = preambleOf(encodePoison(GOLDEN_POISON));
    expect(sameFlight(dead, dead)).toBe(false);
  });
});
