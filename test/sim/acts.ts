/** What a caller may do with a stream, and how often: drawn from the features of the seed. */
import type { AppendOptions, ReadOptions } from '../../src/engine/api.ts';
import { seen, type Client, type Lead } from './client.ts';
import { outcomeOf, type Outcome, type SeenRecord } from './operations.ts';
import type { Feature } from './world-config.ts';

export type Act = (client: Client, lead: Lead) => Promise<unknown>;

/** What acts of features take away from plain appends; the last line of the table is the rest. */
export function actsOf(
  features: ReadonlySet<Feature>,
): readonly { readonly share: number; readonly act: Act }[] {
  const chosen: { readonly share: number; readonly act: Act }[] = [
    { share: 0.14, act: read },
    { share: 0.16, act: checkTail },
    { share: 0.03, act: release },
  ];
  for (const [feature, share, act] of OF_FEATURES) {
    if (features.has(feature)) chosen.push({ share, act });
  }
  const rest = 1 - chosen.reduce((sum, { share }) => sum + share, 0);
  return [...chosen, { share: rest, act: burst }];
}

const OF_FEATURES: readonly (readonly [Feature, number, Act])[] = [
  ['live', 0.05, follow],
  ['match', 0.12, appendMatching],
  ['tokens', 0.04, installToken],
  ['tokens', 0.12, appendWithToken],
  ['trim', 0.03, trim],
  ['delete', 0.015, deleteStream],
  ['handoff', 0.04, handOff],
  ['roll', 0.015, roll],
];

interface AppendRequest extends AppendOptions {
  readonly records?: number;
}

function append(client: Client, lead: Lead, request: AppendRequest = {}): Promise<Outcome> {
  const { prng, clock, tokens } = client.options;
  const { stream } = lead;
  const { records = 1 + prng.below(3), matchSeqNum, ...given } = request;
  const fencingToken =
    given.fencingToken ?? (stream.mode === 'fenced' ? tokens.current(stream.name) : undefined);
  const conditions = {
    ...(matchSeqNum === undefined ? {} : { matchSeqNum }),
    ...(fencingToken === undefined ? {} : { fencingToken }),
  };
  return client.perform(lead, { kind: 'append', records, ...conditions }, async ({ bodies }) => {
    const controller = new AbortController();
    const timer = prng.chance(0.03)
      ? clock.setTimeout(() => {
          controller.abort();
        }, prng.below(40))
      : undefined;
    try {
      const timeoutMillis = prng.chance(0.05) ? prng.below(60) : 2_000 + prng.below(15_000);
      const options = { ...conditions, timeoutMillis, signal: controller.signal };
      const { start, end } = await stream.append(
        bodies.map((body) => ({ body })),
        options,
      );
      return { kind: 'appended', start: start.seqNum, end: end.seqNum };
    } finally {
      if (timer !== undefined) clock.clearTimeout(timer);
    }
  });
}

async function burst(client: Client, lead: Lead): Promise<void> {
  const { prng, depth } = client.options;
  await Promise.all(Array.from({ length: 1 + prng.below(depth) }, () => append(client, lead)));
}

/** Several at once, each behind the one before; some start from a wrong number. */
async function appendMatching(client: Client, lead: Lead): Promise<void> {
  const { prng, depth } = client.options;
  let next = client.knownEnd(lead.stream.id);
  if (prng.chance(0.3)) next = Math.max(0, next + prng.below(7) - 3);
  const appends: Promise<Outcome>[] = [];
  for (let left = 1 + prng.below(depth); left > 0; left--) {
    const records = 1 + prng.below(3);
    appends.push(append(client, lead, { records, matchSeqNum: next }));
    next += records;
  }
  await Promise.all(appends);
}

async function appendWithToken(client: Client, lead: Lead): Promise<void> {
  const { prng, depth, tokens } = client.options;
  const fencingToken = tokens.draw(lead.stream.name, prng);
  await Promise.all(
    Array.from({ length: 1 + prng.below(depth) }, () => append(client, lead, { fencingToken })),
  );
}

async function installToken(client: Client, lead: Lead): Promise<void> {
  const { prng, tokens } = client.options;
  const { stream } = lead;
  const token = prng.chance(0.15) ? '' : tokens.fresh();
  const mustGive = stream.mode === 'fenced' || prng.chance(0.5);
  const conditions = mustGive ? { fencingToken: tokens.draw(stream.name, prng) } : {};
  const command = `#fence:${token}`;
  const outcome = await client.perform(
    lead,
    { kind: 'append', command, ...conditions },
    async () => {
      const { start, end } = await stream.fence(token, { ...conditions, timeoutMillis: 10_000 });
      return { kind: 'appended', start: start.seqNum, end: end.seqNum };
    },
  );
  if (outcome.kind === 'appended') tokens.learn(stream.name, token);
}

async function trim(client: Client, lead: Lead): Promise<void> {
  const { prng, tokens } = client.options;
  const { stream } = lead;
  const point = prng.below(client.knownEnd(stream.id) + 1);
  const conditions =
    stream.mode === 'fenced' ? { fencingToken: tokens.current(stream.name) } : undefined;
  const request = { kind: 'append' as const, command: `#trim:${point}`, ...conditions };
  await client.perform(lead, request, async () => {
    const { start, end } = await stream.trim(point, { ...conditions, timeoutMillis: 10_000 });
    return { kind: 'appended', start: start.seqNum, end: end.seqNum };
  });
}

async function read(client: Client, lead: Lead): Promise<void> {
  const { prng } = client.options;
  const end = client.knownEnd(lead.stream.id);
  // Long streams are mostly read near their ends: the whole of them is read back at the end anyhow.
  const from = prng.chance(0.2) ? prng.below(end + 1) : Math.max(0, end - prng.below(40));
  await client.perform(lead, { kind: 'read', from }, async () => {
    const limit = prng.chance(0.3) ? 1 + prng.below(5) : undefined;
    const options = { from, timeoutMillis: 10_000, ...(limit === undefined ? {} : { limit }) };
    const records: SeenRecord[] = [];
    for await (const record of lead.stream.read(options)) records.push(seen(record));
    return { kind: 'read', records, complete: limit === undefined };
  });
}

/** Reads on at the tail for a while; what came before its end counts, whatever ended it. */
async function follow(client: Client, lead: Lead): Promise<void> {
  const { prng } = client.options;
  const from = Math.max(0, client.knownEnd(lead.stream.id) - prng.below(5));
  await client.perform(lead, { kind: 'read', from }, async () => {
    const records: SeenRecord[] = [];
    const options: ReadOptions = {
      from,
      live: true,
      timeoutMillis: 100 + prng.below(2_000),
      limit: 1 + prng.below(60),
    };
    try {
      for await (const record of lead.stream.read(options)) records.push(seen(record));
    } catch (error) {
      if (records.length === 0) throw error;
      const { kind } = outcomeOf(error);
      if (kind !== 'failed') throw error;
      lead.node.notice(error, lead.engine, lead.stream);
    }
    return { kind: 'read', records, complete: false };
  });
}

async function checkTail(client: Client, lead: Lead): Promise<void> {
  await client.perform(lead, { kind: 'checkTail' }, async () => {
    const { seqNum } = await lead.stream.checkTail({ timeoutMillis: 10_000 });
    return { kind: 'tail', tail: seqNum };
  });
}

function release(client: Client, lead: Lead): Promise<void> {
  return client.ask(lead, () => lead.node.release(lead.stream.name, 6_000));
}

function deleteStream(client: Client, lead: Lead): Promise<void> {
  const { name } = lead.stream;
  return client.ask(lead, () => lead.engine.deleteStream(name, { timeoutMillis: 8_000 }));
}

function handOff(client: Client, lead: Lead): Promise<void> {
  const { nodes, prng } = client.options;
  const { star } = prng.pick(nodes);
  if (star === lead.node.star) return Promise.resolve();
  return client.ask(lead, () => lead.node.handOff(lead.stream.name, star, 8_000));
}

function roll(client: Client, lead: Lead): Promise<void> {
  return client.ask(lead, () => lead.engine.roll({ timeoutMillis: 10_000 }));
}
