/** For tests of the engine: observations, a tiny detector for eager addresses, and a book in memory. */
import type { Observation } from '../core/observation.js';
import type { Ban } from '../controls/ban.js';
import type { BanAsk, BanBook, BanOutcome } from '../controls/ban-book-contract.js';
import { subjectKey } from '../controls/ban.js';
import type { Delivered } from '../bus/bus-contract.js';
import { correlatorSection } from './config.js';
import type { CorrelatorConfig } from './config.js';
import type { Detection, Detector, DetectorPart, Saved } from './detector.js';
import type { Listed } from './detectors/index.js';
import { createEngine, type Engine, type EngineDeps } from './engine.js';
import type { Note } from './proposals.js';
import { createScreen } from './screen.js';

export const BASE_MS = Date.parse('2026-03-02T10:00:00Z');

/** One that was served well, unless `given` says else. */
export function observed(given: Partial<Observation> & { at?: number; n?: number } = {}): Observation {
  const { at = 0, n = 0, ...rest } = given;
  const ip = rest.ip ?? '203.0.113.7';
  return {
    timeMs: BASE_MS + at,
    requestId: `request-${n}-${at}`,
    node: 'gate',
    site: 'shop',
    ip,
    key: ip,
    asn: undefined,
    userAgent: 'browser',
    session: undefined,
    apiKey: undefined,
    user: undefined,
    headerHash: undefined,
    ja4: undefined,
    method: 'GET',
    path: '/',
    status: 200,
    upstreamStatus: 200,
    refusal: 'none',
    allowlisted: false,
    near: undefined,
    ...rest,
  };
}

/** Finds addresses with `least` refused logins (401) or more in the last five minutes. */
export function eagerDetector(least = 5): Detector {
  return {
    name: 'failedLogins',
    open: (saved) => eagerPart(saved),
    evaluate: (parts, nowMs) => detect(parts as EagerPart[], { least, nowMs }),
  };
}

type Seen = { count: number; firstSeenMs: number; lastSeenMs: number; requestIds: string[] };
type EagerPart = DetectorPart & { seen: Map<string, Seen> };

function eagerPart(saved?: Saved): EagerPart {
  const seen = new Map<string, Seen>((saved ?? []) as unknown as [string, Seen][]);
  return {
    seen,
    observe({ ip, status, timeMs, requestId }) {
      if (status !== 401) return;
      const known = seen.get(ip) ?? { count: 0, firstSeenMs: timeMs, lastSeenMs: timeMs, requestIds: [] };
      known.count++;
      known.lastSeenMs = Math.max(known.lastSeenMs, timeMs);
      known.requestIds.push(requestId);
      seen.set(ip, known);
    },
    save: () => JSON.parse(JSON.stringify([...seen])) as Saved,
    size: () => seen.size,
    dropped: () => 0,
  };
}

function detect(
  parts: readonly EagerPart[],
  { least, nowMs }: { least: number; nowMs: number },
): Detection[] {
  const all = parts.flatMap(({ seen }) => [...seen]);
  const found = all.filter(([, { count, lastSeenMs }]) => count >= least && lastSeenMs > nowMs - 300_000);
  if (found.length === 0) return [];
  const suspects = found.map(([value, evidence]) => ({
    subject: { kind: 'network' as const, value },
    evidence: { ...evidence, requestIds: evidence.requestIds.slice(-3) },
  }));
  const total = found.reduce((sum, [, { count }]) => sum + count, 0);
  return [
    {
      detector: 'failedLogins',
      pattern: 'eager logins',
      confidence: 0.9,
      summary: `${total} failed logins from ${found.length} addresses`,
      counts: { total },
      firstSeenMs: Math.min(...found.map(([, { firstSeenMs }]) => firstSeenMs)),
      lastSeenMs: Math.max(...found.map(([, { lastSeenMs }]) => lastSeenMs)),
      suspects,
      explains: ({ path }) => path === '/login',
    },
  ];
}

export type FakeBook = Pick<BanBook, 'ban' | 'note'> & {
  readonly bans: Map<string, BanAsk>;
  readonly asks: BanAsk[];
  readonly notes: Note[];
  away: boolean;
};

/** Keeps the first ban of each subject; `away`: rejects. */
export function fakeBook(): FakeBook {
  const book: FakeBook = {
    bans: new Map(),
    asks: [],
    notes: [],
    away: false,
    async ban(asks) {
      if (book.away) throw new Error('the book is away');
      book.asks.push(...asks);
      return asks.map((ask): BanOutcome => {
        const key = subjectKey(ask.subject);
        const known = book.bans.has(key);
        if (!known) book.bans.set(key, ask);
        return { result: known ? 'same' : 'made', ban: { id: key } as Ban };
      });
    },
    async note(entry) {
      if (book.away) throw new Error('the book is away');
      book.notes.push(entry);
    },
  };
  return book;
}

export type TestEngine = Readonly<{
  engine: Engine;
  book: FakeBook;
  logged: string[];
  config: CorrelatorConfig;
}>;

export type TestEngineOptions = Partial<Omit<EngineDeps, 'config' | 'book'>> &
  Readonly<{ config?: Record<string, unknown>; book?: FakeBook; nowMs?: () => number }>;

export function testEngine(options: TestEngineOptions = {}): TestEngine {
  const { config: given = {}, book = fakeBook(), nowMs = () => BASE_MS, ...rest } = options;
  const config = correlatorSection.parse(given);
  const logged: string[] = [];
  const listed: Listed[] = [{ settings: { mode: 'enforce', banAt: 0.8 }, detector: eagerDetector() }];
  const engine = createEngine({
    config,
    listed,
    book,
    screen: createScreen({ isAllowed: () => false, isOwn: () => false, widest: { ipv4: 16, ipv6: 32 } }),
    clock: { nowMs },
    log: (_level, text) => void logged.push(text),
    ...rest,
  });
  return { engine, book, logged, config };
}

/** Numbers the contents of one partition from `from` on. */
export function deliver(
  engine: Engine,
  contents: readonly Delivered['content'][],
  { partition = 0, from = 0 }: Readonly<{ partition?: number; from?: number }> = {},
): void {
  for (const [at, content] of contents.entries()) engine.take({ partition, offset: from + at, content });
}

/** So many failed logins of one address, a second apart. */
export function logins(ip: string, count: number, at = 0): Observation[] {
  return Array.from({ length: count }, (_, n) =>
    observed({
      ip,
      at: at + n * 1_000,
      requestId: `${ip}-${at}-${n}`,
      path: '/login',
      status: 401,
      upstreamStatus: 401,
    }),
  );
}
