import t from 'tap';
import type { Saved } from './detector.js';
import { createPartition } from './partition.js';
import { createSaver } from './saver.js';
import type { StateStore, StoredState } from './state-contract.js';
import { observed } from './testing-engine.js';

const deps = { detectors: [], latenessMs: 30_000, onTrouble: () => undefined, claimOf: () => undefined };
const open = (saved?: Saved) => createPartition(deps, saved);

function fakeStates(over: Partial<StateStore> = {}) {
  const kept = new Map<number, StoredState>();
  const states: StateStore = {
    load: async (partition) => kept.get(partition),
    async save(stored) {
      kept.set(stored.partition, stored);
      return true;
    },
    others: async () => ({ moved: [], all: [] }),
    ...over,
  };
  return { kept, states };
}

t.test(
  'only what was saved may be committed; between two saves that is less than was taken',
  async (test) => {
    const { states, kept } = fakeStates();
    const saver = createSaver({ states, from: undefined, open, onTrouble: () => undefined, everyMs: 60_000 });
    const partition = await saver.load(0);
    const owned = new Map([[0, partition]]);
    partition.take(0, observed({ n: 1 }));
    test.same([...(await saver.save(owned))], [[0, 1]]);
    partition.take(1, observed({ n: 2 }));
    test.same([...(await saver.save(owned))], [[0, 1]], 'too soon to save again');
    test.equal(kept.get(0)?.position.nextOffset, 1);
    test.same([...(await saver.save(new Map()))], [], 'nothing of what is no longer ours');
  },
);

t.test('a partition that somebody else is further in is not committed', async (test) => {
  const told: string[] = [];
  const { states } = fakeStates({ save: async () => false });
  const saver = createSaver({ states, from: undefined, open, onTrouble: (text) => void told.push(text) });
  const partition = await saver.load(0);
  partition.take(0, observed());
  test.same([...(await saver.save(new Map([[0, partition]])))], []);
  test.equal(saver.stats().outrun, 1);
  test.equal(told.length, 1);
});

t.test('states of others are read as they move, and forgotten when they are ours', async (test) => {
  const other = open();
  other.take(4, observed());
  const stored = { partition: 1, position: { epoch: 0, nextOffset: 5 }, state: other.save() };
  const { states } = fakeStates({
    others: async (own, known) => ({
      moved: own.includes(1) || known.has(1) ? [] : [stored],
      all: [0, 1],
    }),
  });
  const saver = createSaver({ states, from: undefined, open, onTrouble: () => undefined });
  test.equal(await saver.refresh([0]), true);
  test.match(saver.foreign(), [{ nextOffset: 5 }]);
  test.equal(await saver.refresh([0]), false);
  await saver.refresh([0, 1]);
  test.same(saver.foreign(), []);
});
