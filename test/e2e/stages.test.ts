/** Each stage's own decision, and the way of one attack through all six, as the log tells it. */
import t from 'tap';
import { bench, JSON_TYPE, passes, requestIdOf, SQLI, type Bench } from '../support/case.js';
import type { Pair } from '../support/bytes.js';
import { exchange, request, type Answer, type RequestSpec } from '../support/raw-client.js';

const TOR_ADDRESS = '185.220.101.45';
const ONIONOO = JSON.stringify({
  version: '8.0',
  relays_published: '2026-01-01 00:00:00',
  relays: [
    {
      nickname: 'exit',
      fingerprint: 'A'.repeat(40),
      or_addresses: [`${TOR_ADDRESS}:9001`],
      exit_addresses: [TOR_ADDRESS],
      running: true,
      flags: ['Exit', 'Fast', 'Running', 'Valid'],
    },
    {
      nickname: 'other',
      fingerprint: 'B'.repeat(40),
      or_addresses: ['185.220.101.46:9001'],
      exit_addresses: ['185.220.101.46'],
      running: true,
      flags: ['Exit', 'Running', 'Valid'],
    },
  ],
  bridges: [],
});
const FILES = { 'onionoo.json': ONIONOO, 'block.txt': '203.0.113.66\n198.51.100.0/24\n' };
const CONFIG = {
  trustedProxies: ['127.0.0.1'],
  reputation: { blocklist: 'block.txt', tor: { file: 'onionoo.json' } },
};

const send = async ({ gate }: Bench, spec: RequestSpec): Promise<Answer> =>
  exchange(gate.port, request(spec));
const login = (body: string, ip = TOR_ADDRESS): RequestSpec => ({
  method: 'POST',
  target: '/api/login',
  bare: true,
  headers: [['User-Agent', 'python-requests/2.28.0'], ['X-Forwarded-For', ip], JSON_TYPE],
  body,
});
const via = (ip: string): Pair[] => [['X-Forwarded-For', ip]];

t.test('an injection from a Tor exit over its limit climbs 70, 95, 100 and is refused', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  for (let n = 0; n < 5; n++) await send(at, login('{"username":"ann","password":"x"}'));
  const answer = await send(at, login(`{"username":"admin' OR '1'='1' --","password":"anything"}`));
  test.equal(answer.status, 403, 'refused');
  const body = JSON.parse(answer.text() || '{}') as Record<string, unknown>;
  test.equal(body['error'], 'Forbidden', 'opaque body');
  const id = requestIdOf(answer);
  test.not(id, '', 'with a request id');
  test.notOk(/sqli|tor|rule|score/i.test(answer.text()), 'nothing about why');
  const event = await at.gate.event(({ requestId }) => requestId === id);
  test.equal(event.client.ip, TOR_ADDRESS, 'client');
  const step = (name: string) => event.steps.find(({ stage }) => stage === name);
  test.match(step('reputation'), { before: 0, after: 70 }, 'reputation: 0 to 70');
  test.match(step('limits'), { before: 70, after: 95 }, 'limits: 70 to 95');
  const headers = event.steps.filter(({ stage }) => stage === 'headers');
  test.match(headers[0], { before: 95, after: 100 }, 'headers: 95 to 100, capped');
  test.ok(event.ruleIds.includes('SQLI-001'), 'SQLI-001 matches', { got: event.ruleIds });
  test.ok(event.ruleIds.includes('SQLI-002'), 'SQLI-002 matches', { got: event.ruleIds });
  test.equal(event.score, 100, 'score');
  test.equal(event.action, 'block', 'action');
  const found = event.steps.flatMap((one) => one.findings).find((finding) => finding.id === 'SQLI-001');
  test.match(found?.evidence?.target ?? '', /username/, 'the evidence names the field');
  test.ok(event.durationUs.total >= 0, 'and the time it took');
});

t.test('a listed address is refused at stage 1 and no other stage runs', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  for (const ip of ['203.0.113.66', '198.51.100.7']) {
    const answer = await send(at, { target: `/listed?q=${encodeURIComponent(SQLI)}`, headers: via(ip) });
    test.equal(answer.status, 403, `${ip}: refused`);
    const event = await at.gate.event(({ requestId }) => requestId === requestIdOf(answer));
    test.strictSame(
      event.ruleIds.filter((rule) => rule.startsWith('SQLI')),
      [],
      `${ip}: the rules did not run`,
    );
    for (const stage of ['limits', 'headers', 'rules'] as const) {
      const step = event.steps.find((one) => one.stage === stage);
      test.ok(step === undefined || step.skipped !== undefined, `${ip}: ${stage} is skipped`);
    }
  }
  test.equal(at.up.bytesReceived, 0, 'the origin saw nothing');
  await passes(test, 'control: another address', at, { headers: via('192.0.2.7') });
});

t.test('a Tor exit alone is not refused', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  await passes(test, 'an ordinary page', at, { headers: via(TOR_ADDRESS) });
});

t.test('over a limit without a match: 429 with Retry-After and RateLimit fields', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  const page = { ...login('{"username":"ann","password":"x"}', '192.0.2.8'), bare: false };
  const answers: Answer[] = [];
  for (let n = 0; n < 7; n++)
    answers.push(await send(at, { ...page, headers: [...via('192.0.2.8'), JSON_TYPE] }));
  test.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200, 429, 429],
    'five pass, then 429',
  );
  const last = answers.at(-1);
  const retry = Number(last?.header('retry-after'));
  test.ok(retry >= 1 && retry <= 120, 'Retry-After', { retry });
  test.ok(last?.header('ratelimit') ?? last?.header('ratelimit-limit'), 'RateLimit', {
    got: last?.headers,
  });
  test.not(last && requestIdOf(last), '', 'request id');
  const html = await send(at, {
    ...page,
    headers: [
      ...via('192.0.2.8'),
      ['Content-Type', 'application/x-www-form-urlencoded'],
      ['Sec-Fetch-Mode', 'navigate'],
    ],
    body: 'username=ann',
  });
  test.match(html.header('content-type') ?? '', /text\/html/, 'HTML for a navigation');
  const api = await send(at, {
    ...page,
    headers: [...via('192.0.2.8'), JSON_TYPE, ['Accept', 'application/json']],
  });
  test.match(api.header('content-type') ?? '', /problem\+json/, 'problem+json for the rest');
});

t.test('the shipped limits hold: password reset 3 an hour by user, burst alarm', async (test) => {
  const at = await bench(test, { ...CONFIG, limits: {} }, { files: FILES });
  const statuses: number[] = [];
  for (let n = 0; n < 70; n++)
    statuses.push((await send(at, { target: `/${n}`, headers: via('192.0.2.10') })).status);
  const passed = statuses.filter((status) => status === 200).length;
  test.ok(passed >= 30 && passed <= 60, 'ingress: 60 in 10 s, or 30 in 5 s', { passed });
  test.ok(
    statuses.every((status) => [200, 429].includes(status)),
    'never 403 for a limit',
  );
});

t.test('CR and LF smuggled into values: 400', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  const raw = [
    'GET / HTTP/1.1\r\nHost: app.test\r\nX-A: a\rSet-Cookie: b\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: app.test\r\nX-A: a\nSet-Cookie: b\r\n\r\n',
  ];
  for (const bytes of raw)
    test.equal((await exchange(at.gate.port, bytes)).status, 400, JSON.stringify(bytes.slice(30, 55)));
  const encoded = await send(at, { headers: [['X-Next', '/a%0d%0aSet-Cookie:%20b=1']] });
  test.ok(encoded.status === 400 || encoded.status === 403, 'encoded CR LF in a header', {
    got: encoded.status,
  });
  test.equal(at.up.bytesReceived, 0, 'the origin saw nothing');
});

t.test('header scores: each check has its points', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  const rows: readonly { name: string; spec: RequestSpec; least: number }[] = [
    { name: 'no User-Agent', spec: { bare: true, headers: [['Accept', '*/*']] }, least: 40 },
    {
      name: 'an automation tool',
      spec: {
        bare: true,
        headers: [
          ['User-Agent', 'sqlmap/1.7'],
          ['Accept', '*/*'],
        ],
      },
      least: 30,
    },
    {
      name: 'no Accept',
      spec: { bare: true, headers: [['User-Agent', 'Mozilla/5.0 Firefox/128.0']] },
      least: 15,
    },
    { name: 'a browser', spec: {}, least: 0 },
  ];
  for (const [n, { name, spec, least }] of rows.entries()) {
    await send(at, { ...spec, target: `/h${n}` });
    const event = await at.gate.event(({ path }) => path === `/h${n}`);
    test.ok(least === 0 ? event.score < 10 : event.score >= least, `${name}: ${least}`, {
      got: event.score,
    });
  }
});

t.test('observe mode judges and logs everything and refuses nothing', async (test) => {
  const at = await bench(test, { ...CONFIG, mode: 'observe' }, { files: FILES });
  const rows: readonly { name: string; spec: RequestSpec; wouldBe: string }[] = [
    { name: 'an injection', spec: { target: `/o1?q=${encodeURIComponent(SQLI)}` }, wouldBe: 'block' },
    { name: 'a listed address', spec: { target: '/o2', headers: via('203.0.113.66') }, wouldBe: 'block' },
  ];
  for (const { name, spec, wouldBe } of rows) {
    const answer = await send(at, spec);
    test.equal(answer.status, 200, `${name}: served`);
    const path = (spec.target ?? '').split('?')[0];
    const event = await at.gate.event((one) => one.path === path);
    test.equal(event.action, 'observe', `${name}: logged as observed`);
    test.equal(event.wouldBe, wouldBe, `${name}: with what would have been`);
  }
});

t.test('event fields that tools read are there', async (test) => {
  const at = await bench(test, CONFIG, { files: FILES });
  await send(at, { target: '/fields?a=1', headers: via('192.0.2.7') });
  const event = await at.gate.event(({ path }) => path === '/fields');
  test.match(event, {
    time: /^\d{4}-\d\d-\d\dT.*Z$/,
    requestId: String,
    site: 'shop',
    client: { ip: '192.0.2.7' },
    method: 'GET',
    status: 200,
    action: 'pass',
    score: Number,
    durationUs: { total: Number, rules: Number },
  });
  test.strictSame(
    [...new Set(event.steps.map(({ stage }) => stage))].filter((stage) => stage !== 'framing').slice(0, 5),
    ['reputation', 'limits', 'headers', 'rules', 'decision'],
    'stages in their order',
  );
});
