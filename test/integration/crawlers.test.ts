/** Crawlers prove who they are against a name server that answers, lies, is silent or away. */
import t from 'tap';
import { systemClock } from '../../src/core/clock.js';
import { crawlersSection } from '../../src/correlator/crawler-list.js';
import { createCrawlers, createNames } from '../../src/correlator/crawlers.js';
import { DnsServer } from '../support/dns-server.js';

const GOOGLEBOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)';
const V6 = '2001:4860:4801:10::1';
const V6_ARPA = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.1.0.8.4.0.6.8.4.1.0.0.2.ip6.arpa';

type Teardown = Readonly<{ teardown(end: () => void): void }>;

async function started(test: Teardown) {
  const server = await DnsServer.start();
  test.teardown(() => server.close());
  const names = createNames([server.address], 150);
  return {
    server,
    crawlers: createCrawlers(crawlersSection.parse(undefined), { names, clock: systemClock }),
  };
}

t.test('forward-confirmed reverse DNS, IPv4 and IPv6', async (test) => {
  const { server, crawlers } = await started(test);
  server.records.set('1.66.249.66.in-addr.arpa', ['crawl-66-249-66-1.googlebot.com']);
  server.records.set('crawl-66-249-66-1.googlebot.com', ['66.249.66.1', V6]);
  server.records.set(V6_ARPA, ['crawl-66-249-66-1.googlebot.com']);
  server.records.set('2.2.0.192.in-addr.arpa', ['crawl-66-249-66-1.googlebot.com']);
  test.equal(await crawlers.verified('66.249.66.1', GOOGLEBOT), 'yes');
  test.equal(await crawlers.verified(V6, GOOGLEBOT), 'yes');
  test.equal(await crawlers.verified('192.0.2.2', GOOGLEBOT), 'no', 'its name is another one’s');
  test.equal(await crawlers.verified('192.0.2.3', GOOGLEBOT), 'no', 'it has no name');
  const before = server.queries;
  test.equal(await crawlers.verified('66.249.66.1', GOOGLEBOT), 'yes');
  test.equal(server.queries, before, 'answers are kept');
});

t.test('a name server that is away leaves it open', async (test) => {
  const { server, crawlers } = await started(test);
  server.mode = 'broken';
  test.equal(await crawlers.verified('66.249.66.1', GOOGLEBOT), 'unknown');
  server.mode = 'silent';
  test.equal(await crawlers.verified('66.249.66.2', GOOGLEBOT), 'unknown');
});

t.test('who lets only its own name hang is no crawler', async (test) => {
  const { server, crawlers } = await started(test);
  server.silentAbout.add('4.2.0.192.in-addr.arpa');
  test.equal(await crawlers.verified('192.0.2.4', GOOGLEBOT), 'no');
});
