import { expect, it } from 'vitest';
import { MemoryPeerNetwork } from '../../../src/adapters/memory/peers.ts';
import { Accepted, message, peersContract } from './contract.ts';

function make() {
  const network = new MemoryPeerNetwork();
  const near = network.join({ token: 'token-of-all' });
  const far = network.join({ token: 'token-of-all' });
  const stranger = network.join({ token: 'token-of-nobody' });
  return {
    network,
    near,
    far,
    stranger,
    cut: (address: string) => network.cut(address),
    dispose: async () => {
      await Promise.all([near.close(), far.close(), stranger.close()]);
    },
  };
}

peersContract('memory', async () => make());

it('lets an engine fall silent: nothing arrives, nobody is told', async () => {
  const { network, near, far } = make();
  const accepted = new Accepted();
  const { address } = await far.listen(accepted.accept);
  const channel = await near.open(address);
  const other = await accepted.next();
  network.silence(address);
  void channel.send(message('lost'));
  const outcome = await Promise.race([
    other.receive(),
    new Promise((resolve) => setTimeout(() => resolve('nothing'), 20)),
  ]);
  expect(outcome).toBe('nothing');
  expect(channel.isOver).toBe(false);
});
