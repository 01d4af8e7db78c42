/**
 * An engine of its own process on S3 buckets: appends to a stream until it is killed. Prints the
 * sequence number of each record that is durable. Argument: its components, as JSON.
 */
import { createEngine, type Components } from '../../../src/index.ts';

const components = JSON.parse(process.argv[2]!) as Components;
const engine = await createEngine({ components, settings: { copyQuorum: 2 } });
const stream = await engine.open('orders');
for (let count = 0; ; count++) {
  const { start } = await stream.append([{ body: `record ${count}` }]);
  process.stdout.write(`${start.seqNum}\n`);
}
