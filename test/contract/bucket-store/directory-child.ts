/**
 * One process of a test: creates `<key prefix>/0`, `/1`, ... in a bucket, several at a time, and
 * prints `<index> <outcome>` for each. Arguments: folder, key prefix, count, text of the bodies.
 */
import { DirectoryBucketStore } from '../../../src/adapters/directory/bucket-store.ts';

const [root, prefix, count, text] = process.argv.slice(2);
const store = await DirectoryBucketStore.open({ root: root! });
let next = 0;

async function work(): Promise<void> {
  while (next < Number(count)) {
    const index = next++;
    const body = Buffer.alloc(10_000, `${text} ${index} `);
    const outcome = await store.createOnly(`${prefix}/${index}`, body);
    process.stdout.write(`${index} ${outcome.kind}\n`);
  }
}

process.stdout.write('open\n');
await Promise.all([work(), work(), work(), work()]);
await store.close();
