import { createEngine, directoryComponents } from 'asterlog';

const components = directoryComponents({ root: './data', buckets: 3 });
await using engine = await createEngine({ components, settings: { copyQuorum: 2 } });

const stream = await engine.open('orders');
const ticket = await stream.submit([{ body: 'one' }, { body: 'two' }]); // accepted: numbers assigned
const { start, end } = await ticket.ack(); // durable: two of three buckets hold it, in order

for await (const record of stream.read({ from: start.seqNum })) {
  console.log(record.seqNum, Buffer.from(record.body).toString());
}
console.log(`next: ${end.seqNum}`);
