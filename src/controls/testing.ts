/**
 * One suite for every book of bans: a table of timed asks with what must come of them, run on the book in
 * memory and on the one in Redis, so that the rules in TypeScript and in Lua are the same.
 */
import type { Test } from 'tap';
import type { Ban, BanEvidence, BanMode, Subject } from './ban.js';
import type { BanAsk, BanBook, BanResult } from './ban-book-contract.js';
import type { BookRules } from './memory-book.js';

export const RULES: BookRules = {
  base: 1000,
  factor: 4,
  max: 20_000,
  memory: 100_000,
  most: 1000,
  ledger: 1000,
  audit: 100,
};

/** Opens an empty book with these rules and this clock. */
export type OpenBook = (
  t: Test,
  rules: BookRules,
  clock: Readonly<{ nowMs: () => number }>,
) => Promise<BanBook> | BanBook;

export const network = (value: string): Subject => ({ kind: 'network', value });
const ADDRESS = network('198.51.100.7');

export function evidence(lastSeenMs: number, firstSeenMs = lastSeenMs): BanEvidence {
  return {
    detector: 'failedLogins',
    pattern: 'failed logins on shop POST /login',
    summary: '290 failed logins from 58 addresses within 60 s',
    count: 5,
    firstSeenMs,
    lastSeenMs,
    requestIds: ['r1', 'r2'],
    confidence: 0.97,
  };
}

/** A detector's ask. */
export function found(lastSeenMs: number, given: Partial<BanAsk> & { firstSeenMs?: number } = {}): BanAsk {
  const { firstSeenMs, ...rest } = given;
  return {
    subject: ADDRESS,
    mode: 'enforce',
    reason: 'failed logins',
    actor: 'detector:failedLogins',
    evidence: evidence(lastSeenMs, firstSeenMs),
    ...rest,
  };
}

/** An operator's. */
export function told(durationMs: number, given: Partial<BanAsk> = {}): BanAsk {
  const base = { subject: ADDRESS, mode: 'enforce', reason: 'abuse report', actor: 'ann@desk' } as const;
  return { ...base, durationMs, ...given };
}

type Step = Readonly<{
  /** Since the start. */
  at: number;
  ask?: BanAsk;
  /** Lifts the ban on the address. */
  lift?: true;
  want?: BanResult;
  /** Of the ban in force afterwards; undefined says that there is none. */
  then?: Readonly<{ lasts: number; strikes: number; mode?: BanMode }> | 'none';
}>;
type Case = Readonly<{ name: string; steps: readonly Step[] }>;

const START = 1_000_000;
const at = (ms: number): number => START + ms;

export const CASES: readonly Case[] = [
  {
    name: 'each ban within the memory lasts four times longer, up to the longest',
    steps: [
      { at: 0, ask: found(at(0)), want: 'made', then: { lasts: 1000, strikes: 1 } },
      { at: 2000, ask: found(at(1900)), want: 'made', then: { lasts: 4000, strikes: 2 } },
      { at: 7000, ask: found(at(6900)), want: 'made', then: { lasts: 16_000, strikes: 3 } },
      { at: 30_000, ask: found(at(29_000)), want: 'made', then: { lasts: 20_000, strikes: 4 } },
    ],
  },
  {
    name: 'after the memory it starts anew',
    steps: [
      { at: 0, ask: found(at(0)), want: 'made', then: { lasts: 1000, strikes: 1 } },
      { at: 100_000, ask: found(at(99_000)), want: 'made', then: { lasts: 1000, strikes: 1 } },
    ],
  },
  {
    name: 'a ban in force is not extended, however new the evidence',
    steps: [
      { at: 0, ask: found(at(0)), want: 'made' },
      { at: 600, ask: found(at(550)), want: 'same', then: { lasts: 400, strikes: 1 } },
      { at: 1000, then: 'none' },
    ],
  },
  {
    name: 'evidence that was judged before does nothing, also after the end: a topic that is read again',
    steps: [
      { at: 0, ask: found(at(0)), want: 'made' },
      { at: 100, ask: found(at(90)), want: 'same' },
      { at: 5000, ask: found(at(0)), want: 'same', then: 'none' },
      { at: 5000, ask: found(at(90), { firstSeenMs: at(-900) }), want: 'same', then: 'none' },
      { at: 5000, ask: found(at(91)), want: 'made', then: { lasts: 4000, strikes: 2 } },
    ],
  },
  {
    name: 'what an operator lifted, older evidence does not bring back; newer does',
    steps: [
      { at: 0, ask: found(at(0)), want: 'made' },
      { at: 100, lift: true, then: 'none' },
      { at: 200, ask: found(at(150), { firstSeenMs: at(-50) }), want: 'pardoned', then: 'none' },
      { at: 300, ask: found(at(150), { firstSeenMs: at(110) }), want: 'same', then: 'none' },
      { at: 400, ask: found(at(350), { firstSeenMs: at(110) }), want: 'made' },
      { at: 400, then: { lasts: 4000, strikes: 2 } },
    ],
  },
  {
    name: 'an operator always gets what was asked for, and it is no strike',
    steps: [
      { at: 0, ask: told(60_000), want: 'made', then: { lasts: 60_000, strikes: 0 } },
      { at: 100, ask: found(at(90)), want: 'same', then: { lasts: 59_900, strikes: 0 } },
      { at: 200, ask: told(500, { mode: 'observe' }), want: 'replaced' },
      { at: 200, then: { lasts: 500, strikes: 0, mode: 'observe' } },
      { at: 300, ask: found(at(290)), want: 'same', then: { lasts: 400, strikes: 0, mode: 'observe' } },
      { at: 900, ask: found(at(290)), want: 'same', then: 'none' },
      { at: 900, ask: found(at(890)), want: 'made', then: { lasts: 1000, strikes: 1 } },
      { at: 1000, ask: told(100), want: 'replaced', then: { lasts: 100, strikes: 0 } },
      { at: 1200, ask: found(at(1190)), want: 'made', then: { lasts: 4000, strikes: 2 } },
    ],
  },
  {
    name: 'an operator may ban what was lifted',
    steps: [
      { at: 0, ask: told(1000), want: 'made' },
      { at: 10, lift: true, then: 'none' },
      { at: 20, ask: told(1000), want: 'made', then: { lasts: 1000, strikes: 0 } },
    ],
  },
  {
    name: 'a watch gives way to a ban, never the other way round; only bans count',
    steps: [
      { at: 0, ask: found(at(0), { mode: 'watch' }), want: 'made', then: { lasts: 1000, strikes: 1, mode: 'watch' } },
      { at: 10, ask: found(at(0)), want: 'replaced', then: { lasts: 1000, strikes: 1, mode: 'enforce' } },
      { at: 20, ask: found(at(15), { mode: 'watch' }), want: 'same' },
      { at: 20, then: { lasts: 990, strikes: 1, mode: 'enforce' } },
      { at: 2000, ask: found(at(0)), want: 'same', then: 'none' },
      { at: 2000, ask: found(at(1990), { mode: 'watch' }), want: 'made' },
      { at: 2000, then: { lasts: 1000, strikes: 1, mode: 'watch' } },
      { at: 4000, ask: found(at(3990)), want: 'made', then: { lasts: 4000, strikes: 2 } },
    ],
  },
  {
    name: 'what was observed counts, and once when it is enforced',
    steps: [
      { at: 0, ask: found(at(0), { mode: 'observe' }), want: 'made' },
      { at: 0, then: { lasts: 1000, strikes: 1, mode: 'observe' } },
      { at: 10, ask: found(at(5)), want: 'replaced', then: { lasts: 1000, strikes: 1, mode: 'enforce' } },
      { at: 2000, ask: found(at(1990), { mode: 'observe' }), want: 'made' },
      { at: 2000, then: { lasts: 4000, strikes: 2, mode: 'observe' } },
    ],
  },
];

async function runCase(t: Test, { steps }: Case, open: OpenBook): Promise<void> {
  const clock = { at: START, nowMs: () => clock.at };
  const book = await open(t, RULES, clock);
  for (const { at: offset, ask, lift, want, then } of steps) {
    clock.at = at(offset);
    if (lift === true) await book.unban(ADDRESS, { actor: 'ann@desk', reason: 'mistake' });
    const [outcome] = ask === undefined ? [] : await book.ban([ask]);
    if (want !== undefined) t.equal(outcome?.result, want, `${offset} ms: ${want}`);
    if (then === undefined) continue;
    const { bans } = await book.read();
    if (then === 'none') t.same(bans, [], `${offset} ms: none in force`);
    else {
      const { lasts, strikes, mode = 'enforce' } = then;
      const wanted = { subject: ADDRESS, mode, strikes, untilMs: at(offset + lasts) };
      t.match(bans, [wanted], `${offset} ms: ${mode} for ${lasts} ms, strike ${strikes}`);
      if (ask !== undefined) t.match(outcome?.ban, wanted, `${offset} ms: told so`);
    }
  }
}

/** Runs everything that must hold for any book. */
export async function bookSuite(t: Test, open: OpenBook): Promise<void> {
  for (const one of CASES) await t.test(one.name, (t) => runCase(t, one, open));
  await t.test('a ban is read as it was made, with its evidence', (t) => whole(t, open));
  await t.test('when full, the least severe and oldest give way, operators last', (t) => full(t, open));
  await t.test('the audit trail tells what was done, newest first', (t) => trail(t, open));
  await t.test('lifting what is not banned answers nothing', async (t) => {
    const book = await open(t, RULES, { nowMs: () => START });
    t.equal(await book.unban(ADDRESS, { actor: 'ann', reason: 'x' }), undefined);
    t.same(await book.audit(10), []);
  });
  await t.test('the ledger is bounded', async (t) => {
    const clock = { at: START, nowMs: () => clock.at };
    const book = await open(t, { ...RULES, ledger: 10 }, clock);
    for (let n = 0; n < 30; n++) {
      clock.at++;
      await book.ban([found(clock.at, { subject: network(`10.0.0.${n}`) })]);
    }
    clock.at += 2000;
    const again = (n: number) => book.ban([found(clock.at, { subject: network(`10.0.0.${n}`) })]);
    t.match(await again(0), [{ ban: { strikes: 1 } }], 'the oldest is forgotten');
    t.match(await again(29), [{ ban: { strikes: 2 } }], 'the newest is not');
  });
}

async function whole(t: Test, open: OpenBook): Promise<void> {
  const book = await open(t, RULES, { nowMs: () => START });
  const subjects: Subject[] = [
    network('2001:db8:1:2::/64'),
    { kind: 'session', value: 'aB-_c:d' },
    { kind: 'ja4', value: 't13d1516h2_8daaf6152771_02713d6af862' },
  ];
  const asks = subjects.map((subject) => found(at(0), { subject, reason: 'quote " and {} \u00e4' }));
  const outcomes = await book.ban(asks);
  t.same(outcomes.map(({ result }) => result), ['made', 'made', 'made']);
  const { version, bans } = await book.read();
  t.ok(version >= 3);
  const byValue = (a: Ban, b: Ban) => a.subject.value.localeCompare(b.subject.value);
  t.same([...bans].sort(byValue), outcomes.map(({ ban }) => ban!).sort(byValue));
  const [first] = bans.filter(({ subject }) => subject.kind === 'session');
  t.match(first, {
    id: /^[\w-]{6,}$/,
    mode: 'enforce',
    reason: 'quote " and {} \u00e4',
    actor: 'detector:failedLogins',
    sinceMs: START,
    untilMs: at(1000),
    evidence: evidence(at(0)),
  });
  const lifted = await book.unban(subjects[0]!, { actor: 'ann', reason: 'x' });
  t.equal(lifted?.id, bans.find(isOf(subjects[0]!))?.id);
  t.equal((await book.read()).bans.length, 2);
}

const isOf =
  (subject: Subject) =>
  (ban: Ban): boolean =>
    ban.subject.kind === subject.kind && ban.subject.value === subject.value;

async function full(t: Test, open: OpenBook): Promise<void> {
  const clock = { at: START, nowMs: () => clock.at };
  const book = await open(t, { ...RULES, most: 5 }, clock);
  const modes: BanMode[] = ['enforce', 'observe', 'observe', 'watch'];
  for (const [n, mode] of modes.entries()) {
    clock.at++;
    await book.ban([found(clock.at, { subject: network(`10.0.0.${n}`), mode })]);
  }
  await book.ban([told(900_000, { subject: network('10.0.0.9'), mode: 'observe' })]);
  const values = async () => (await book.read()).bans.map(({ subject }) => subject.value).sort();
  t.same(await values(), ['10.0.0.0', '10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.9']);
  const next = async (n: number, mode: BanMode = 'enforce') => {
    clock.at++;
    const [outcome] = await book.ban([found(clock.at, { subject: network(`10.0.1.${n}`), mode })]);
    return outcome?.result;
  };
  t.equal(await next(0, 'watch'), 'full', 'a watch moves no watch');
  t.equal(await next(1), 'made');
  t.same(await values(), ['10.0.0.0', '10.0.0.1', '10.0.0.2', '10.0.0.9', '10.0.1.1'], 'the watch went');
  t.equal(await next(2), 'made');
  t.same(await values(), ['10.0.0.0', '10.0.0.2', '10.0.0.9', '10.0.1.1', '10.0.1.2'], 'the older one went');
  t.equal(await next(3), 'made');
  t.equal(await next(4), 'full', 'nothing less severe is left');
  const [outcome] = await book.ban([told(1000, { subject: network('10.0.1.5') })]);
  t.equal(outcome?.result, 'made', 'an operator finds room');
  t.same(await values(), ['10.0.0.9', '10.0.1.1', '10.0.1.2', '10.0.1.3', '10.0.1.5']);
  clock.at += 5000;
  t.equal(await next(6), 'made', 'what is over makes room');
  t.same(await values(), ['10.0.0.9', '10.0.1.6']);
}

async function trail(t: Test, open: OpenBook): Promise<void> {
  const clock = { at: START, nowMs: () => clock.at };
  const book = await open(t, RULES, clock);
  await book.ban([found(at(0))]);
  await book.ban([found(at(0))]);
  clock.at = at(10);
  await book.unban(ADDRESS, { actor: 'ann@desk', reason: 'office of a partner' });
  clock.at = at(20);
  await book.note({
    what: 'held-back',
    subject: 'network:192.0.2.1',
    actor: 'detector:rareAgent',
    reason: 'touches 31 % of the good requests',
  });
  t.match(await book.audit(10), [
    { timeMs: at(20), what: 'held-back', subject: 'network:192.0.2.1', actor: 'detector:rareAgent' },
    { timeMs: at(10), what: 'unban', reason: 'office of a partner', ban: { strikes: 1 } },
    { timeMs: at(0), what: 'ban', actor: 'detector:failedLogins', ban: { evidence: { count: 5 } } },
  ]);
  t.equal((await book.audit(10)).length, 3, 'what changed nothing is not in it');
  t.equal((await book.audit(1)).length, 1);
}
