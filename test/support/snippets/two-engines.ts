import { createEngine, memoryComponents } from 'asterlog';

const components = memoryComponents({ buckets: 3 });
const listen = { token: process.env['ASTERLOG_TOKEN'] ?? 'the same on every engine' };
await using one = await createEngine({ components, listen, settings: { star: 'one' } });
await using two = await createEngine({ components, listen, settings: { star: 'two' } });

await one.open('orders'); // star one leads the stream
const stream = await two.open('orders'); // star two forwards to it, and takes over when it is gone
const { start } = await stream.append([{ body: 'over there' }]);
console.log(start.seqNum);
