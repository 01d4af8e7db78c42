/** Two engines in processes of their own over three Ceph zones, of which two are enough. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { whereCephRuns } from './ceph-zone.ts';
import { landLateUntil, type Late } from './late-put.ts';
import { Members } from './members.ts';
import { ThreeZones } from './three-zones.ts';
import { deferred } from '../../src/lib/wait.ts';

const MINUTE = 60_000;
const zones = new ThreeZones();
const started = await whereCephRuns((ceph) => zones.start(ceph));
const reason = started === undefined ? '' : `: ${started.reason}`;
if (started !== undefined) await zones.stop();

describe.skipIf(reason !== '')(`two processes over three zones${reason}`, () => {
  beforeAll(() => {
    const { accessKeyId, secretAccessKey } = zones.zones[0]!.credentials;
    vi.stubEnv('AWS_ACCESS_KEY_ID', accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', secretAccessKey);
    vi.stubEnv('AWS_SESSION_TOKEN', '');
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await zones.stop();
  }, MINUTE);

  it('go on when the leader is killed', async () => {
    await sharing('takeover', async (members) => {
      await members.start('left');
      await members.start('right');
      await members.served();
      await members.kill('left');
      await members.served();
      await members.start('left');
      await members.served();
      const { detected, takeovers } = await members.judge('kill of the leader');
      expect(detected).toBeGreaterThan(0);
      expect(takeovers).toBeGreaterThan(0);
    });
  });

  it('go on when a zone is killed, and with it when it has returned and another is killed', async () => {
    await sharing('outage', async (members) => {
      const [, second, third] = zones.zones;
      await members.start('left');
      await members.start('right');
      await members.served();
      await second!.kill();
      await members.served();
      await members.kill('left');
      await members.served();
      await second!.restart();
      await members.start('left');
      await members.served();
      await third!.kill();
      await members.served();
      await third!.restart();
      await members.served();
      const { takeovers } = await members.judge('kill of zones');
      expect(takeovers).toBeGreaterThan(0);
    });
  });

  it('cut an epoch where they did when a copy of a dead leader arrives afterwards', async () => {
    const late = (): Late => {
      const released = deferred<void>();
      const fault = { kind: 'hold', until: released.promise } as const;
      return {
        begin: ({ faults }, when) => faults.add({ when, fault }),
        isDue: ({ tailSwept }) => tailSwept,
        end: () => released.resolve(),
      };
    };
    await landLateUntil(zones, { bucket: 'held', late }, ({ standing }) => standing > 0);
  });

  it('cut it there, too, when the store of a zone stood still meanwhile', async () => {
    const [, , third] = zones.zones;
    const late = (): Late => ({
      begin: () => third!.freeze(),
      // What would be swept there cannot be, yet.
      isDue: ({ state }) => state !== 'open',
      end: () => third!.thaw(),
    });
    await landLateUntil(zones, { bucket: 'frozen', late }, ({ copies }) => copies > 0);
  });
});

async function sharing(bucket: string, body: (members: Members) => Promise<void>): Promise<void> {
  const members = await Members.prepare(zones, bucket);
  try {
    await body(members);
  } finally {
    await members.dispose();
  }
}
