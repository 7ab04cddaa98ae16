import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { observationOf } from '../core/observation.js';
import { eventFor } from '../telemetry/testing.js';
import type { Raw } from './slot.js';
import { LOOP_DEFAULTS, TakeLoop, type LoopOptions, type LoopSource } from './take-loop.js';
import { recordingSink } from './testing.js';

const OPTIONS = { ...LOOP_DEFAULTS, settleEveryMs: 20 };
const T0 = Date.parse('2026-01-02T03:04:05.000Z');

const message = (offset: number, ms: number): Raw => {
  const event = eventFor({ time: new Date(T0 + ms).toISOString(), requestId: `${offset}@${ms}` });
  return { offset, value: observationOf(event) };
};

async function until(fits: () => boolean): Promise<void> {
  for (let n = 0; n < 2_000 && !fits(); n++) await sleep(5);
}

function loopOver(sink: ReturnType<typeof recordingSink>, more: Partial<LoopSource & LoopOptions> = {}) {
  const commits: [number, number][][] = [];
  const source: LoopSource = {
    prepare: async () => void sink.calls.push('prepare'),
    begin: async () => undefined,
    resume: () => undefined,
    commit: async (offsets) => void commits.push([...offsets]),
    decode: (value) => value as ReturnType<typeof observationOf>,
    ...more,
  };
  return { loop: new TakeLoop(sink, source, { ...OPTIONS, ...more }), commits };
}

t.test('where to read on is looked up before any partition is opened', async (test) => {
  const sink = recordingSink();
  const { loop } = loopOver(sink);
  await loop.assign([4, 7]);
  await until(() => sink.calls.length >= 3);
  test.same(sink.calls.slice(0, 3), ['prepare', 'open 4', 'open 7']);
  await loop.close(100);
});

t.test('a partition that does not open is tried again, and nothing of it is taken before', async (test) => {
  let tries = 0;
  const sink = recordingSink({
    async open() {
      if (++tries < 3) throw new Error('not yet');
    },
  });
  const { loop } = loopOver(sink);
  await loop.assign([0]);
  test.equal(loop.push(0, [message(0, 0)], { next: 1, end: 1 }), false);
  await until(() => loop.push(0, [message(0, 0)], { next: 1, end: 1 }));
  await until(() => sink.taken.length === 1);
  test.equal(tries, 3);
  test.equal(loop.failures, 2);
  await loop.close(100);
});

t.test('one that is behind is waited for, one that has caught up is not', async (test) => {
  const sink = recordingSink();
  const { loop } = loopOver(sink, { waitMs: 60_000 });
  await loop.assign([0, 1]);
  await until(() => loop.push(1, [], { next: 0, end: 5 }));
  loop.push(0, [message(0, 10)], { next: 1, end: 1 });
  await sleep(50);
  test.same(sink.ids(), [], 'partition 1 has five more to come');
  test.equal(loop.lag(), 6);
  loop.push(1, [message(0, 5), message(4, 15)], { next: 5, end: 5 });
  await until(() => sink.ids().length === 3);
  test.same(sink.ids(), ['0@5', '0@10', '4@15']);
  loop.push(0, [message(1, 20)], { next: 2, end: 2 });
  await until(() => sink.ids().length === 4);
  test.same(sink.ids()[3], '1@20', 'at once');
  await loop.close(100);
});

t.test('what is committed is what was settled, of partitions that are still ours', async (test) => {
  const sink = recordingSink();
  const { loop, commits } = loopOver(sink);
  await loop.assign([0]);
  await until(() => loop.push(0, [message(6, 0)], { next: 7, end: 7 }));
  await until(() => commits.length > 0);
  test.same(commits[0], [[0, 7]]);
  sink.refuseSettling(true);
  loop.push(0, [message(7, 1)], { next: 8, end: 8 });
  await until(() => loop.failures > 0);
  test.equal(commits.length, 1, 'nothing where settling fails');
  await loop.assign([]);
  test.equal(sink.calls.at(-1), 'lost 0');
  await loop.close(100);
});

t.test('a sink that throws, which it must not, does not end the reading', async (test) => {
  let calls = 0;
  const sink = recordingSink({
    take() {
      if (++calls === 1) throw new Error('a mistake');
    },
  });
  const { loop } = loopOver(sink);
  await loop.assign([0]);
  await until(() => loop.push(0, [message(0, 0), message(1, 1)], { next: 2, end: 2 }));
  await until(() => calls === 2);
  test.equal(calls, 2);
  test.equal(loop.failures, 1);
  await loop.close(100);
});

t.test('an event is read by the clock of the bus that took it', async (test) => {
  const sink = recordingSink();
  const seen: (number | undefined)[] = [];
  const { loop } = loopOver(sink, {
    decode: (value, takenMs) => {
      seen.push(takenMs);
      return value as ReturnType<typeof observationOf>;
    },
  });
  await loop.assign([1]);
  await until(() => sink.calls.includes('open 1'));
  loop.push(1, [{ ...message(0, 0), takenMs: T0 }, message(1, 1)], { next: 2, end: 2 });
  await until(() => seen.length === 2);
  test.same(seen, [T0, undefined]);
  await loop.close(100);
});
