import { createEngine, EngineError, memoryComponents } from 'asterlog';

await using engine = await createEngine({ components: memoryComponents() });
const stream = await engine.open('orders');
try {
  await stream.append([{ body: 'x' }], { timeoutMillis: 5_000 });
} catch (error) {
  if (!EngineError.is(error)) throw error;
  if (error.sideEffects === 'possible') {
    // Indeterminate: the record may be in the stream. Read the tail before appending it again.
  } else if (error.retryable) {
    // Nothing was appended: try again after error.retryAfterMillis.
  } else {
    throw error; // error.code, error.kind and error.details say what is wrong
  }
}
console.log('done');
