import t from 'tap';
import { crawlersSection } from './crawler-list.js';
import { createCrawlers, type Names } from './crawlers.js';

const GOOGLEBOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)';
const DUCK = 'DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)';
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0';

const absent = (): Promise<never> => Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' }));
const broken = (): Promise<never> => Promise.reject(Object.assign(new Error('late'), { code: 'ETIMEOUT' }));

type Records = Readonly<Record<string, readonly string[]>>;

function withNames(reverse: Records, forward: Records, over: Partial<Names> = {}) {
  let asked = 0;
  let nowMs = 0;
  const names: Names = {
    reverse: async (ip) => {
      asked += 1;
      return reverse[ip] ?? absent();
    },
    addresses: async (name) => forward[name] ?? absent(),
    isAnswering: async () => true,
    ...over,
  };
  const clock = { nowMs: () => nowMs };
  const crawlers = createCrawlers(crawlersSection.parse(undefined), { names, clock });
  return { crawlers, asked: () => asked, pass: (ms: number) => (nowMs += ms) };
}

const PTR = { '66.249.66.1': ['crawl-66-249-66-1.googlebot.com.'], '2001:4860::1': ['a.google.com'] };
const FORWARD = {
  'crawl-66-249-66-1.googlebot.com': ['66.249.66.1'],
  'a.google.com': ['2001:4860:0::1'],
};

t.test('a crawler is who its name says, there and back', async (test) => {
  const { crawlers } = withNames(PTR, FORWARD);
  test.equal(await crawlers.verified('66.249.66.1', GOOGLEBOT), 'yes');
  test.equal(await crawlers.verified('2001:4860::1', GOOGLEBOT.replace('Googlebot', 'GOOGLEBOT')), 'yes');
  test.match(crawlers.stats(), { yes: 2, no: 0, unknown: 0, known: 2 });
});

const IMPOSTORS: Readonly<Record<string, readonly [Records, Records]>> = {
  'an address without a name': [{}, {}],
  'a name of its own': [{ '192.0.2.1': ['host.example.net'] }, { 'host.example.net': ['192.0.2.1'] }],
  'a name that leads elsewhere': [{ '192.0.2.1': ['crawl-66-249-66-1.googlebot.com'] }, FORWARD],
  'a name that does not exist': [{ '192.0.2.1': ['x.googlebot.com'] }, {}],
  'a domain that only looks like it': [
    { '192.0.2.1': ['a.notgooglebot.com', 'googlebot.com.evil.example'] },
    { 'a.notgooglebot.com': ['192.0.2.1'], 'googlebot.com.evil.example': ['192.0.2.1'] },
  ],
  'another operator’s domain': [{ '192.0.2.1': ['x.search.msn.com'] }, { 'x.search.msn.com': ['192.0.2.1'] }],
};
for (const [name, [reverse, forward]] of Object.entries(IMPOSTORS)) {
  t.test(`an impostor is told: ${name}`, async (test) => {
    test.equal(await withNames(reverse, forward).crawlers.verified('192.0.2.1', GOOGLEBOT), 'no');
  });
}

t.test('published networks prove it without DNS; outside of them a name may', async (test) => {
  const { crawlers, asked } = withNames({}, {});
  test.equal(await crawlers.verified('20.191.45.212', DUCK), 'yes');
  test.equal(asked(), 0);
  test.equal(await crawlers.verified('20.191.45.213', DUCK), 'no');
});

t.test('who claims nothing is nobody, and nobody is asked', async (test) => {
  const { crawlers, asked } = withNames(PTR, FORWARD);
  test.equal(await crawlers.verified('66.249.66.1', BROWSER), 'no');
  test.equal(crawlers.claimOf(BROWSER), undefined);
  test.equal(crawlers.claimOf(GOOGLEBOT), 'googlebot');
  test.equal(asked(), 0);
});

t.test(
  'with DNS away nobody knows; an address that alone has no working name is no crawler',
  async (test) => {
    const away = withNames({}, {}, { reverse: broken, isAnswering: broken });
    test.equal(await away.crawlers.verified('66.249.66.1', GOOGLEBOT), 'unknown');
    test.match(away.crawlers.stats(), { unknown: 1 });
    const lame = withNames({}, {}, { reverse: broken });
    test.equal(await lame.crawlers.verified('192.0.2.1', GOOGLEBOT), 'no');
  },
);

t.test('an answer is kept for its time, and asked for once by many', async (test) => {
  const { crawlers, asked, pass } = withNames(PTR, FORWARD);
  await Promise.all(Array.from({ length: 50 }, () => crawlers.verified('66.249.66.1', GOOGLEBOT)));
  test.equal(asked(), 1);
  pass(3_600_000);
  await crawlers.verified('66.249.66.1', GOOGLEBOT);
  test.equal(asked(), 1);
  pass(6 * 3_600_000);
  await crawlers.verified('66.249.66.1', GOOGLEBOT);
  test.equal(asked(), 2);
});

t.test('what waits is bounded, and so is what is remembered', async (test) => {
  let free: (names: readonly string[]) => void = () => undefined;
  const held = new Promise<readonly string[]>((resolve) => (free = resolve));
  const { crawlers } = withNames({}, {}, { reverse: () => held });
  const all = Array.from({ length: 600 }, (_, at) =>
    crawlers.verified(`192.0.${at >> 8}.${at & 255}`, GOOGLEBOT),
  );
  test.equal(await all[599], 'unknown');
  free([]);
  test.same(new Set(await Promise.all(all.slice(0, 500))), new Set(['no']));
  const many = withNames({}, {}).crawlers;
  for (let at = 0; at < 10_100; at++) await many.verified(`10.0.${at >> 8}.${at & 255}`, GOOGLEBOT);
  test.equal(many.stats().known, 10_000);
});

t.test('an entry of the config needs a way to prove it', async (test) => {
  test.ok(crawlersSection.safeParse([{ agent: 'UptimeWatch', networks: ['192.0.2.0/28'] }]).success);
  test.notOk(crawlersSection.safeParse([{ agent: 'UptimeWatch' }]).success);
  test.notOk(crawlersSection.safeParse([{ agent: 'x', domains: ['example.com'] }]).success);
});
