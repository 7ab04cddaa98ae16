import t from 'tap';
import { correlatorSection } from './config.js';
import { createPartition, type Partition, type PartitionDeps } from './partition.js';
import { BASE_MS, eagerDetector, logins, observed } from './testing-engine.js';
import type { Saved } from './detector.js';

const deps: PartitionDeps = {
  detectors: [{ detector: eagerDetector(), settings: 'a' }],
  latenessMs: 30_000,
  claimOf: () => undefined,
  onTrouble: () => undefined,
};
const savedText = (partition: Partition): Saved => JSON.parse(JSON.stringify(partition.save())) as Saved;

t.test('every event has one fate, and only judged ones reach detectors', async (test) => {
  const partition = createPartition(deps);
  const [login] = logins('192.0.2.1', 1, 60_000);
  test.equal(partition.take(10, login!), 'judged');
  test.equal(partition.take(10, login!), 'redelivered');
  test.equal(partition.take(11, login!), 'repeated', 'the same request under a new offset');
  test.equal(partition.take(12, observed({ n: 1, at: 29_999 })), 'late');
  test.equal(partition.take(13, observed({ n: 2, at: 30_000 })), 'judged', 'just in time');
  test.equal(partition.take(14, observed({ n: 3, at: 60_000, refusal: 'ban' })), 'banned');
  test.equal(partition.take(15, observed({ n: 4, at: 60_000, allowlisted: true })), 'allowlisted');
  partition.skip(16);
  test.equal(partition.nextOffset, 17);
  test.equal(partition.parts[0]!.size(), 1);
});

t.test(
  'whoever takes over from a saved state comes to the same end, whatever is delivered again',
  async (test) => {
    const events = [...logins('192.0.2.1', 30), ...logins('192.0.2.2', 30), ...logins('192.0.2.1', 5)];
    const whole = createPartition(deps);
    for (const [at, event] of events.entries()) whole.take(at, event);
    for (const cut of [1, 17, 40, 64]) {
      const before = createPartition(deps);
      for (const [at, event] of events.slice(0, cut).entries()) before.take(at, event);
      const after = createPartition(deps, savedText(before));
      const again = Math.max(0, cut - 9);
      for (const [at, event] of events.slice(again).entries()) after.take(again + at, event);
      test.same(savedText(after), savedText(whole), `cut at ${cut}`);
    }
  },
);

t.test(
  'a topic that was made anew is no redelivery: its times go on where its offsets begin again',
  async (test) => {
    const partition = createPartition(deps);
    partition.take(500, observed({ at: 1_000 }));
    test.equal(partition.take(0, observed({ at: 2_000 })), 'judged');
    test.match({ epoch: partition.epoch, next: partition.nextOffset }, { epoch: 1, next: 1 });
    test.equal(partition.take(0, observed({ at: 2_000 })), 'redelivered');
  },
);

t.test(
  'what does not fit any more starts anew: other thresholds, another version, broken text',
  async (test) => {
    const partition = createPartition(deps);
    for (const [at, event] of logins('192.0.2.1', 3).entries()) partition.take(at, event);
    const saved = savedText(partition) as Record<string, Saved>;
    const other = { ...deps, detectors: [{ detector: eagerDetector(), settings: 'b' }] };
    test.equal(createPartition(other, saved).parts[0]!.size(), 0);
    test.equal(createPartition(other, saved).nextOffset, 3, 'only the part starts anew');
    test.equal(createPartition(deps, { ...saved, v: 99 }).nextOffset, 0);
    test.equal(createPartition(deps, { ...saved, good: 'x', repeats: 'y' }).maxTimeMs, BASE_MS + 2_000);
  },
);

t.test('a detector that throws is told and does not stop the others', async (test) => {
  const told: string[] = [];
  const observe = (): void => {
    throw new Error('broken');
  };
  const broken = { ...eagerDetector(), open: () => ({ ...eagerDetector().open(), observe }) };
  const detectors = [broken, eagerDetector()].map((detector) => ({ detector, settings: '' }));
  const partition = createPartition({ ...deps, detectors, onTrouble: (name) => void told.push(name) });
  test.equal(partition.take(0, logins('192.0.2.1', 1)[0]!), 'judged');
  test.same(told, ['failedLogins']);
  test.equal(partition.parts[1]!.size(), 1);
});

t.test('by default what a gate held back while its bus was away still counts', async (test) => {
  const partition = createPartition({ ...deps, latenessMs: correlatorSection.parse({}).lateness });
  test.equal(partition.take(0, observed({ n: 1, at: 400_000 })), 'judged');
  test.equal(partition.take(1, observed({ n: 2, at: 60_000 })), 'judged');
});
