/**
 * Somebody with a browser's name and no key who walks through page after page, or sends form after form, at a
 * pace too even for a person. Machines are no offence: what names itself as one, shows a key, asks for one
 * URL again and again (probes, polling, event streams) or fetches assets only is left alone. A slide show in
 * a browser looks the same, so it only observes unless the config says else. Steps less than 200 ms apart are
 * one step: what is faster is the limits' business.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { duration } from '../../core/schema.js';
import { createAddressTotals, totalOf, type AddressTotals } from '../address-totals.js';
import { detectorShape } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest, Saved } from '../detector.js';
import { createEntries, type Entries } from '../entries.js';
import { hash32 } from '../../structures/text-hash.js';
import { addStep, createPace, evennessOf, readPace, writePace, type Evenness, type Pace } from '../pace.js';
import { isAsset } from '../route.js';
import { listOf, numberOf, recordOf, textOf, type Row } from '../saved.js';

export const regularTimingSection = z
  .strictObject({
    ...detectorShape(0.8, 'observe'),
    steps: z.int().min(30).max(120).default(60).describe('Steps, new pages or forms sent, before it judges.'),
    share: z
      .number()
      .min(0.5)
      .max(1)
      .default(0.8)
      .describe('Share of the gaps between steps within one band of ±28 % from which on they are too even.'),
    lasting: duration('5m', { min: 30_000, max: 3_600_000 }).describe('It has gone on for so long.'),
    window: duration('15m', { min: 60_000, max: 3_600_000 }).describe('Forgotten when idle for so long.'),
    keep: z.int().min(100).max(1_000_000).default(20_000).describe('Clients remembered in each partition.'),
  })
  .prefault({});

export type RegularTimingConfig = z.output<typeof regularTimingSection>;

/** A session, or an address with one agent. */
type Walker = {
  /** Both empty with a session. */
  key: string;
  agent: string;
  session: string | undefined;
  /** Names itself as a machine. */
  declared: boolean;
  firstMs: number;
  lastMs: number;
  /** All pages, repeated ones too. */
  count: number;
  steps: number;
  forms: number;
  /** Hashes of the last 32 distinct paths, and the place of the next one. */
  paths: number[];
  nextPath: number;
  /** By single requests, and by pages with the calls that follow them. */
  requests: Pace;
  pages: Pace;
  requestIds: string[];
};

type Part = DetectorPart & Readonly<{ walkers: Entries<Walker>; totals: AddressTotals }>;

const MACHINE =
  /bot|crawl|spider|slurp|monitor|uptime|pingdom|probe|check|preview|fetch|scan|feed|https?:|[\w.-]@/i;
const FORM =
  /log[-_]?[io]n|sign[-_]?(?:in|up)|regist|password|passwd|contact|comment|checkout|coupon|voucher|vote|subscribe/i;
const REQUEST_QUIET_MS = 200;
const PAGE_QUIET_MS = 1_500;
/** A dashboard asks for some URLs over and over: that many are known again. */
const PATHS_MAX = 32;
/** Then it starts anew: address totals reach no further back for sure. */
const LIFE_MS = 5_400_000;
const ONLY_SHARE = 0.8;
const REQUEST_IDS = 5;
const IDS_FROM = 20;
const DETECTIONS_MAX = 2_000;

export function createRegularTiming(config: RegularTimingConfig): Detector {
  return {
    name: 'regularTiming',
    open: (saved) => openPart(config, saved),
    evaluate(parts, nowMs) {
      const all = parts as readonly Part[];
      const totals = all.map((part) => part.totals);
      const found: Detection[] = [];
      for (const { walkers } of all) {
        for (const walker of walkers.all().values()) {
          const even = judge(config, walker, nowMs);
          if (even === undefined) continue;
          const total = walker.session === undefined ? totalOf(totals, walker.key, nowMs) : 0;
          // Others use the address too: it is not banned for one of them.
          if (walker.count >= ONLY_SHARE * total) found.push(detectionOf(config, walker, even));
        }
      }
      return found.sort(bySureness).slice(0, DETECTIONS_MAX);
    },
  };
}

const bySureness = (a: Detection, b: Detection): number =>
  b.confidence - a.confidence || (a.pattern < b.pattern ? -1 : 1);

function openPart(config: RegularTimingConfig, saved: Saved | undefined): Part {
  const record = saved === undefined ? undefined : recordOf(saved);
  const totals = createAddressTotals(record?.['totals']);
  const from = record?.['walkers'];
  const walkers = createEntries<Walker>(
    {
      max: config.keep,
      idleMs: config.window,
      lastMs: ({ lastMs }) => lastMs,
      worth: ({ steps, declared }) => (declared ? 0 : Math.log2(steps + 1)),
    },
    from === undefined ? undefined : { from, read: readWalker },
  );
  return {
    walkers,
    totals,
    observe(observation) {
      const { timeMs, session, apiKey, key, userAgent, path } = observation;
      if (isAsset(path)) return;
      totals.add(key, timeMs);
      if (apiKey !== undefined) return;
      const name = session ?? `${key} ${userAgent}`;
      let walker = walkers.get(name, timeMs);
      if (walker === undefined || timeMs - walker.firstMs > LIFE_MS) {
        walker = createWalker(observation);
        walkers.add(name, walker, timeMs);
      }
      walk(walker, observation);
    },
    save: () => ({ walkers: walkers.save(writeWalker), totals: totals.save() }),
    size: () => walkers.size(),
    dropped: () => walkers.dropped(),
  };
}

const isDeclared = (agent: string): boolean => !agent.startsWith('Mozilla/') || MACHINE.test(agent);

const createWalker = ({ key, userAgent, session, timeMs }: Observation): Walker => ({
  key: session === undefined ? key : '',
  agent: session === undefined ? userAgent : '',
  session,
  declared: isDeclared(userAgent),
  firstMs: timeMs,
  lastMs: timeMs,
  count: 0,
  steps: 0,
  forms: 0,
  paths: [],
  nextPath: 0,
  requests: createPace(timeMs),
  pages: createPace(timeMs),
  requestIds: [],
});

function walk(walker: Walker, { timeMs, method, path, requestId }: Observation): void {
  walker.count += 1;
  if (timeMs > walker.lastMs) walker.lastMs = timeMs;
  if (walker.declared) return;
  const isForm = method === 'POST' && FORM.test(path);
  if (!isNewPath(walker, path) && !isForm) return;
  if (isForm) walker.forms += 1;
  walker.steps += 1;
  addStep(walker.requests, timeMs, REQUEST_QUIET_MS);
  addStep(walker.pages, timeMs, PAGE_QUIET_MS);
  if (walker.steps < IDS_FROM) return;
  walker.requestIds.push(requestId);
  if (walker.requestIds.length > REQUEST_IDS) walker.requestIds.shift();
}

function isNewPath(walker: Walker, path: string): boolean {
  const hash = hash32(path);
  if (walker.paths.includes(hash)) return false;
  walker.paths[walker.nextPath] = hash;
  walker.nextPath = (walker.nextPath + 1) % PATHS_MAX;
  return true;
}

function judge(config: RegularTimingConfig, walker: Walker, nowMs: number): Evenness | undefined {
  if (walker.steps < config.steps || walker.lastMs < nowMs - config.window) return undefined;
  if (walker.lastMs - walker.firstMs < config.lasting) return undefined;
  const [best] = [walker.requests, walker.pages]
    .map(evennessOf)
    .filter(({ gaps, share }) => gaps >= config.steps - 1 && share >= config.share)
    .sort((a, b) => b.share - a.share);
  return best;
}

function detectionOf(config: RegularTimingConfig, walker: Walker, even: Evenness): Detection {
  const { key, agent, session, firstMs, lastMs, steps, forms } = walker;
  const { gaps, share, fromMs, toMs } = even;
  const subject =
    session === undefined
      ? ({ kind: 'network', value: key } as const)
      : ({ kind: 'session', value: session } as const);
  const minutes = Math.round((lastMs - firstMs) / 60_000);
  return {
    detector: 'regularTiming',
    pattern: `even pace of ${session === undefined ? key : `session ${session}`}`,
    confidence: Math.min(
      0.95,
      0.65 + 1.25 * Math.max(0, share - 0.8) + (gaps >= 2 * config.steps ? 0.05 : 0),
    ),
    summary:
      `${steps} new pages and forms in ${minutes} min as a browser, ${Math.round(share * 100)} % of the last ` +
      `${gaps} gaps between ${fromMs} and ${toMs} ms (${Math.round(config.share * 100)} % are suspect)`,
    counts: { steps, forms, gaps, evenPercent: Math.round(share * 100) },
    firstSeenMs: firstMs,
    lastSeenMs: lastMs,
    suspects: [
      {
        subject,
        evidence: {
          count: walker.count,
          firstSeenMs: firstMs,
          lastSeenMs: lastMs,
          requestIds: [...walker.requestIds],
        },
      },
    ],
    explains: (request: GoodRequest) =>
      session === undefined
        ? request.session === undefined && request.key === key && request.userAgent === agent
        : request.session === session,
  };
}

function writeWalker(walker: Walker): Row {
  const { session, declared, firstMs, lastMs, count, steps, forms, paths, nextPath } = walker;
  return [
    session !== undefined,
    declared,
    [firstMs, lastMs, count, steps, forms, nextPath],
    [...paths],
    writePace(walker.requests),
    writePace(walker.pages),
    walker.requestIds,
  ];
}

function readWalker(row: Row, name: string): Walker {
  const [hasSession, declared, numbers, paths, requests, pages, requestIds] = row;
  const space = hasSession === true ? 0 : name.indexOf(' ');
  const [firstMs, lastMs, count, steps, forms, nextPath] = listOf(numbers).map(numberOf);
  return {
    key: name.slice(0, space),
    agent: hasSession === true ? '' : name.slice(space + 1),
    session: hasSession === true ? name : undefined,
    declared: declared === true,
    firstMs: numberOf(firstMs),
    lastMs: numberOf(lastMs),
    count: numberOf(count),
    steps: numberOf(steps),
    forms: numberOf(forms),
    paths: listOf(paths).map(numberOf).slice(0, PATHS_MAX),
    nextPath: numberOf(nextPath) % PATHS_MAX,
    requests: readPace(requests),
    pages: readPace(pages),
    requestIds: listOf(requestIds).map(textOf).slice(0, REQUEST_IDS),
  };
}
