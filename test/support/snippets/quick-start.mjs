import { createEngine, memoryComponents } from 'asterlog';

const engine = await createEngine({ components: memoryComponents({ buckets: 3 }) });
try {
  const stream = await engine.open('orders');
  await stream.append([{ body: 'hello', headers: [['kind', 'greeting']] }]);
  for await (const { seqNum, body } of stream.read()) {
    console.log(seqNum, Buffer.from(body).toString());
  }
} finally {
  await engine.close();
}
