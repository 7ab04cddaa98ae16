/** Judges requests in this process with the engines of a real config and the rules of the package. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../config/load.js';
import { openEngines } from './engines-once.js';
import { judgeOnce } from './explain-judge.js';
import { explainEvent } from './explain-print.js';
import { fromFlags, fromRaw, type CurlFlags, type ExplainRequest } from './explain-request.js';

const folder = t.testdir({ 'block.txt': '203.0.113.66\n' });
const relay = {
  or_addresses: ['185.220.101.45:443'],
  exit_addresses: ['185.220.101.45'],
  flags: ['Exit', 'Running'],
};
writeFileSync(join(folder, 'tor.json'), JSON.stringify({ relays: [relay] }));
const config = parseConfig(
  `sites: [{ name: shop, hosts: [shop.example.com], upstreams: ["http://127.0.0.1:9"] }]
reputation: { blocklist: block.txt, tor: { file: tor.json } }`,
  join(folder, 'gate.yaml'),
);
const nowMs = Date.UTC(2026, 10, 30);
const warnings: string[] = [];
const engines = await openEngines(config, { nowMs: () => nowMs }, (message) => warnings.push(message));
t.teardown(() => engines.close());

const flags = (more: Partial<CurlFlags>): CurlFlags => ({
  url: 'http://shop.example.com/',
  headers: [],
  data: [],
  forms: [],
  userAgent: 'Mozilla/5.0',
  ...more,
});
const judge = (request: ExplainRequest, client = '198.51.100.1') =>
  judgeOnce(request, engines.snapshot, { client, nowMs, requestId: 'explain-1' });

const attack = fromFlags(
  flags({
    url: 'http://shop.example.com/api/login',
    userAgent: 'python-requests/2.28.0',
    headers: ['Accept:', 'Content-Type: application/json'],
    data: [Buffer.from(`{"username":"admin' OR '1'='1' --","password":"anything"}`)],
  }),
);
t.test('requests judged by the whole pipeline', async (t) => {
  for (let n = 1; n <= 5; n++) await judge(attack, '185.220.101.45');
  const { event, wouldChange } = await judge(attack, '185.220.101.45');
  t.strictSame(
    event.steps.slice(0, 4).map(({ stage, before, after }) => [stage, before, after]),
    [
      ['reputation', 0, 70],
      ['limits', 70, 95],
      ['headers', 95, 100],
      ['rules', 100, 100],
    ],
    'the sixth login attack from a Tor exit goes 70, 95, 100',
  );
  t.match(
    { status: event.status, action: event.action },
    { status: 403, action: 'block' },
    'and is a 403, not a 429',
  );
  t.ok(event.ruleIds.includes('SQLI-001') && event.ruleIds.includes('SQLI-002'), 'by its rules');
  t.type(wouldChange, 'string', 'what would have changed it is told');
  t.match(explainEvent(event), /in json:username: /, 'with the text that matched and its place');

  const blocked = await judge(fromFlags(flags({})), '203.0.113.66');
  t.equal(blocked.event.status, 403, 'a blocklisted address is refused');
  t.strictSame(
    blocked.event.steps.filter(({ skipped }) => skipped !== undefined).map(({ stage }) => stage),
    ['limits', 'headers', 'rules'],
    'and touches no further stage',
  );

  const form = await judge(
    fromFlags(flags({ forms: [{ name: 'f', value: Buffer.alloc(300_000, 'a '), fileName: 'a.txt' }] })),
  );
  t.equal(form.event.action, 'pass', 'an upload passes');
  t.equal(form.event.bodyInspection, 'streamed', 'inspected as it streams');
  const other = await judge(fromFlags(flags({ url: 'http://other.example.com/' })));
  t.equal(other.event.status, 421, 'a host of no site is told');

  const framing = await judge(fromRaw(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n')));
  t.match(framing.event, { status: 400, action: 'block' }, 'what cannot be read in one way is a 400');
  t.strictSame(warnings, [], 'nothing had to be warned of');
});
