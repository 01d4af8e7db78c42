/**
 * An engine of its own process: leads a stream and appends to it, until it is killed, or closed by a
 * line on its input. Prints `open`, then the sequence number of each of its records that is durable.
 * Arguments: root, stream, token.
 */
import { createEngine, directoryComponents } from '../../../../src/index.ts';

const [root, name, token] = process.argv.slice(2);
const engine = await createEngine({
  components: directoryComponents({ root: root!, buckets: 2 }),
  settings: { star: 'leader', sessionTimeoutMillis: 5_000 },
  listen: { token: token! },
});
const stream = await engine.open(name!);
const closing = new AbortController();
process.stdin.once('data', () => {
  closing.abort();
  process.stdin.destroy();
});
process.stdout.write('open\n');
while (!closing.signal.aborted) {
  const { start } = await stream.append([{ body: 'own' }]);
  process.stdout.write(`${start.seqNum}\n`);
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await engine.close();
process.stdout.write('closed\n');
