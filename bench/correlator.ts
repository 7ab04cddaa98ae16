/**
 * The correlator with all detectors on one core: a million events of ordinary traffic, of it with a flood of
 * new identities, and the same read from JSON as it lies on the bus. Events a second, memory on the way, how
 * long an evaluation holds its thread. `node --expose-gc dist/bench/correlator.js [events]`
 */
import { execFileSync } from 'node:child_process';
import { decodeText } from '../src/bus/decode.js';
import type { Observation } from '../src/core/observation.js';
import { correlatorSection } from '../src/correlator/config.js';
import { createDetectors } from '../src/correlator/detectors/index.js';
import { createEngine, type Engine } from '../src/correlator/engine.js';
import { createScreen } from '../src/correlator/screen.js';
import { createDice, innocents, observation } from '../src/correlator/testing/index.js';
import { eventOf } from '../test/support/events.js';

const EVENTS = Number(process.argv[2] ?? 1_000_000);
const MARKS = [0.1, 0.5, 1].map((part) => Math.round(part * EVENTS));
const HOUR_MS = 3_600_000;
/** As in the supervisor: the clock asks every two seconds, which here are those of the events. */
const SLICE_MS = 10_000;

type Source = Readonly<{ name: string; next: (at: number) => Observation | string }>;
type Result = Readonly<{
  name: string;
  perSecond: number;
  heapMb: number[];
  evaluateMs: number;
  longestMs: number;
}>;

const base = innocents({ startMs: Date.UTC(2026, 2, 2, 9), lengthMs: HOUR_MS });

/** The hour again and again, later each time, with fresh request ids. */
function ordinary(at: number): Observation {
  const one = base[at % base.length]!;
  const round = Math.floor(at / base.length);
  return round === 0
    ? one
    : { ...one, timeMs: one.timeMs + round * HOUR_MS, requestId: `${one.requestId}-${round}` };
}

const dice = createDice(7);

/** Every other event is somebody nobody has seen before: address, session, agent and path. */
function flooded(at: number): Observation {
  if (at % 2 === 0) return ordinary(at >> 1);
  const { timeMs } = ordinary((at - 1) >> 1);
  const ip = `${1 + dice.int(220)}.${dice.int(256)}.${dice.int(256)}.${dice.int(256)}`;
  const fresh = { session: dice.hex(22), userAgent: `agent/${dice.hex(6)}`, path: `/p/${dice.hex(8)}` };
  const login = { method: 'POST', path: '/login', status: 401, upstreamStatus: 401 };
  return observation({ timeMs, requestId: dice.hex(24), ip, ...fresh, ...(at % 8 === 1 ? login : {}) });
}

const SOURCES: Readonly<Record<string, Source>> = {
  ordinary: { name: 'observations, as in the supervisor', next: ordinary },
  flood: { name: 'half of them new identities', next: flooded },
  json: { name: 'from JSON, as on Kafka', next: (at) => JSON.stringify(eventOf(ordinary(at))) },
};

function openEngine(): Engine {
  const config = correlatorSection.parse({});
  return createEngine({
    config,
    listed: createDetectors(config.detectors),
    book: {
      ban: async (asks) => asks.map(() => ({ result: 'same', ban: undefined })),
      note: async () => undefined,
    },
    screen: createScreen({ isAllowed: () => false, isOwn: () => false, widest: { ipv4: 8, ipv6: 17 } }),
    clock: { nowMs: () => 0 },
    log: () => undefined,
  });
}

/** Events are made in slices outside the time that is taken. */
async function measure({ name, next }: Source): Promise<Result> {
  const engine = openEngine();
  await engine.open(0);
  const nowMs = Date.now();
  const heapMb: number[] = [];
  let ms = 0;
  const chunk = 10_000;
  for (let at = 0; at < EVENTS; at += chunk) {
    const made = Array.from({ length: Math.min(chunk, EVENTS - at) }, (_, n) => next(at + n));
    const since = process.cpuUsage();
    for (let n = 0; n < made.length; n++) {
      const one = made[n]!;
      engine.take({
        partition: 0,
        offset: at + n,
        content: typeof one === 'string' ? decodeText(one, nowMs) : one,
      });
    }
    const { user, system } = process.cpuUsage(since);
    ms += (user + system) / 1_000;
    await engine.settle();
    if (MARKS.includes(at + made.length)) heapMb.push(heapNow());
  }
  const { evaluation } = engine.stats();
  return {
    name,
    perSecond: Math.round((EVENTS / ms) * 1_000),
    heapMb,
    evaluateMs: evaluation.lastMs,
    longestMs: evaluation.longestStepMs,
  };
}

function heapNow(): number {
  (globalThis as { gc?: () => void }).gc?.();
  return process.memoryUsage().heapUsed / 1024 ** 2;
}

/** Each in a process of its own, so that none warms the other's code or holds its memory. */
async function main(): Promise<void> {
  const [only] = process.argv.slice(3);
  if (only !== undefined) {
    const heapBefore = heapNow();
    const result = await measure(SOURCES[only]!);
    process.stdout.write(JSON.stringify({ ...result, heapMb: result.heapMb.map((mb) => mb - heapBefore) }));
    return;
  }
  const made = new Date().toISOString().slice(0, 10);
  const lines = [
    `Made by \`node dist/bench/correlator.js\` on ${made}: Node ${process.version}, one core.`,
    '',
    '## Correlator',
    '',
    `${EVENTS.toLocaleString('en')} events through the engine with all detectors, evaluated every ${SLICE_MS / 1_000} s of event time. Rates are by CPU time, the collector's included. Memory is the heap in use after a collection, beyond what the made traffic itself holds.`,
    '',
    `| source | events/s | ${MARKS.map((mark) => `MB at ${mark / 1_000} k`).join(' | ')} | evaluation ms | longest step ms |`,
    '|---|---|---|---|---|---|---|',
  ];
  for (const name of Object.keys(SOURCES)) {
    const args = ['--expose-gc', '--max-semi-space-size=16', process.argv[1]!, String(EVENTS), name];
    const pinned = ['-c', '0', process.execPath, ...args];
    const text = execFileSync('taskset', pinned, { encoding: 'utf8', maxBuffer: 1024 ** 2 });
    const { perSecond, heapMb, evaluateMs, longestMs, ...result } = JSON.parse(text) as Result;
    const cells = [
      result.name,
      perSecond,
      ...heapMb.map((mb) => mb.toFixed(0)),
      evaluateMs.toFixed(0),
      longestMs.toFixed(0),
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

await main();
