/** The correlator with a database of places, and with a name server that knows crawlers. */
import { join } from 'node:path';
import t from 'tap';
import { DnsServer } from '../support/dns-server.js';
import { configSchema } from '../../src/config/schema.js';
import type { Observation } from '../../src/core/observation.js';
import { deliver, fakeBook, logins, observed } from '../../src/correlator/testing-engine.js';
import { buildCorrelator } from '../../src/roles/correlator.js';

const DEMO = join(import.meta.dirname, '../../deploy/demo');
const GOOGLEBOT = 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)';

async function built(test: { teardown(end: () => Promise<void>): void }, given: Record<string, unknown>) {
  const sites = [{ name: 'shop', hosts: ['app.test'], upstreams: ['http://127.0.0.1:1'] }];
  const config = { ...configSchema.parse({ sites, ...given }), baseDir: DEMO };
  const book = fakeBook();
  const logged: string[] = [];
  const log = (_level: string, text: string): void => void logged.push(text);
  const correlator = buildCorrelator(config, { book, log, clock: { nowMs: () => NOW } });
  test.teardown(() => correlator.close());
  await correlator.start();
  await correlator.engine.open(0);
  return { book, logged, engine: correlator.engine };
}

const NOW = Date.parse('2026-03-02T10:10:00Z');

t.test('a session that is all over the world is banned by the places of a real database', async (test) => {
  const { engine, book } = await built(test, { reputation: { geo: { database: 'geo-sample.mmdb' } } });
  const cities = ['192.0.2.1', '192.0.2.129', '198.51.100.1', '198.51.100.65', '198.51.100.129'];
  const stolen = Array.from({ length: 40 }, (_, n) => {
    const ip = cities[n % 5]!;
    return observed({ n, at: n * 5_000, session: 'stolen', ip, key: ip, path: `/orders/${n}` });
  });
  // Two networks of one country, and a country without coordinates next to it.
  const near = ['203.0.113.1', '203.0.113.129'];
  const calm = Array.from({ length: 40 }, (_, n) =>
    observed({ n: 100 + n, at: n * 5_000, session: 'calm', ip: near[n % 2]!, key: near[n % 2]! }),
  );
  deliver(engine, [...stolen, ...calm]);
  await engine.evaluate();
  await engine.settle();
  test.same([...book.bans.keys()], ['session:stolen']);
  test.match(book.asks.at(-1), {
    mode: 'enforce',
    evidence: { detector: 'travel', summary: /in [45] places/ },
  });
});

/** Failed logins of 60 addresses: those of `claimed` call themselves Googlebot. */
function attack(claimed: readonly string[]): Observation[] {
  const addresses = Array.from({ length: 60 }, (_, at) => `198.18.${at}.1`);
  return [...addresses, ...claimed].flatMap((ip) =>
    logins(ip, 5).map((one) => ({
      ...one,
      method: 'POST',
      userAgent: claimed.includes(ip) ? GOOGLEBOT : 'Mozilla/5.0',
    })),
  );
}

t.test('a crawler that proves itself is spared, its impostor is banned with the rest', async (test) => {
  const dns = await DnsServer.start();
  test.teardown(async () => dns.close());
  dns.records.set('1.66.249.66.in-addr.arpa', ['crawl-66-249-66-1.googlebot.com']);
  dns.records.set('crawl-66-249-66-1.googlebot.com', ['66.249.66.1']);
  const { engine, book } = await built(test, { dns: { servers: [dns.address] } });
  deliver(engine, attack(['66.249.66.1', '198.18.99.1']));
  await engine.evaluate();
  await engine.settle();
  test.ok(book.bans.has('network:198.18.99.1'), 'the impostor');
  test.ok(book.bans.has('network:198.18.7.1'));
  test.notOk(book.bans.has('network:66.249.66.1'), 'the crawler');
  test.ok(engine.stats().acts.crawlers >= 1);
});

t.test('with DNS away who claims it is spared and named in the log; others are banned', async (test) => {
  const dns = await DnsServer.start();
  test.teardown(async () => dns.close());
  dns.mode = 'broken';
  const { engine, book, logged } = await built(test, { dns: { servers: [dns.address] } });
  deliver(engine, attack(['66.249.66.1']));
  await engine.evaluate();
  await engine.settle();
  test.ok(book.bans.has('network:198.18.7.1'));
  test.notOk(book.bans.has('network:66.249.66.1'));
  test.ok(logged.some((text) => /66\.249\.66\.1 claims to be googlebot and is not banned/.test(text)));
});
