/**
 * Run as a process of its own: takes part in a race of conditional writes. For every round, waits
 * until the key `round/<n>` is there, then tries to replace it, once, if nobody has. Prints the rounds it won and how
 * many it lost in the write itself.
 * Arguments: directory, name, rounds.
 */
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';

const STEP_MILLIS = 5;

const [directory = '', name = '', rounds = '0'] = process.argv.slice(2);
const store = await LmdbMetastore.open({ directory, watchPollMillis: 10 });
const won: number[] = [];
let lost = 0;
for (let round = 0; round < Number(rounds); round++) {
  const key = `round/${round}`;
  let opened = await store.get(key);
  while (opened === undefined) {
    await new Promise((done) => setTimeout(done, 1));
    opened = await store.get(key);
  }
  if (Buffer.from(opened.value).toString() === 'open') {
    // All who saw the round open try at the same moment, also on a machine that does nothing else.
    const start = Math.ceil((Date.now() + 1) / STEP_MILLIS) * STEP_MILLIS;
    while (Date.now() < start) await new Promise((done) => setImmediate(done));
    const put = await store.put(key, Buffer.from(name), opened.version);
    if (put.kind === 'applied') won.push(round);
    else lost++;
  }
  // One of the winners of a round opens the next: nobody is ready much earlier than the others.
  await store.put(`round/${round + 1}`, Buffer.from('open'), 'absent');
}
await store.close();
console.log(JSON.stringify({ won, lost }));
