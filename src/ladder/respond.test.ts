import fc from 'fast-check';
import t from 'tap';
import type { Decision } from '../core/decision.js';
import { renderRefusal, type Refusal, type RefusalTo } from './respond.js';

const BROWSER: RefusalTo = {
  requestId: 'r-1',
  method: 'GET',
  accept: 'text/html,*/*;q=0.8',
  secFetchMode: 'navigate',
};
const API: RefusalTo = { requestId: 'r-1', method: 'POST', accept: '*/*', secFetchMode: '' };
const refused = (status: number, more: Partial<Decision> = {}): Decision => ({
  action: 'block',
  status,
  reason: 'SQLI-001 matched admin',
  ruleIds: ['SQLI-001'],
  ...more,
});
const limited = (retryAfterMs: number, policy = 'login'): Decision =>
  refused(429, {
    action: 'limit',
    limit: { policy, by: 'ip', limit: 5, windowMs: 60_000, remaining: 0, resetMs: 41_200, retryAfterMs },
  });

function header({ headers }: Refusal, name: string): string | undefined {
  for (let at = 0; at < headers.length; at += 2)
    if (headers[at]?.toLowerCase() === name) return headers[at + 1];
  return undefined;
}

t.test('the form follows what the client is', async (test) => {
  const rows = [
    { name: 'a navigation', to: BROWSER, status: 403, type: /^text\/html/ },
    {
      name: 'a browser without fetch metadata',
      to: { ...BROWSER, secFetchMode: '' },
      status: 403,
      type: /^text\/html/,
    },
    {
      name: 'a fetch of a page script',
      to: { ...BROWSER, secFetchMode: 'cors' },
      status: 403,
      type: /^application\/json$/,
    },
    { name: 'an API client', to: API, status: 403, type: /^application\/json$/ },
    { name: 'one that says nothing', to: { ...API, accept: '' }, status: 403, type: /^application\/json$/ },
    {
      name: 'a problem reader',
      to: { ...API, accept: 'application/problem+json' },
      status: 403,
      type: /^application\/problem\+json$/,
    },
    { name: 'an API client, limited', to: API, status: 429, type: /^application\/problem\+json$/ },
    { name: 'a navigation, limited', to: BROWSER, status: 429, type: /^text\/html/ },
  ];
  for (const { name, to, status, type } of rows) {
    test.match(header(renderRefusal(refused(status), to), 'content-type'), type, name);
  }
});

t.test('403 for a program: one error word and the request id', async (test) => {
  test.equal(renderRefusal(refused(403), API).body, '{"error":"Forbidden","requestId":"r-1"}');
});

t.test(
  'every refusal names its request, is not stored, has the right length and tells no rule',
  async (test) => {
    for (const status of [400, 403, 408, 413, 415, 421, 429, 501, 502, 503, 504, 418]) {
      for (const to of [BROWSER, API]) {
        const got = renderRefusal(refused(status), to, () => 0.5);
        const name = `${status} ${to.secFetchMode}`;
        test.equal(got.status, status, name);
        test.equal(header(got, 'x-request-id'), 'r-1', name);
        test.equal(header(got, 'cache-control'), 'no-store', name);
        test.equal(header(got, 'content-length'), String(Buffer.byteLength(got.body)), name);
        test.notMatch(got.body + got.headers.join(), /SQLI|admin/, name);
        test.match(got.body, /r-1/, name);
        if (to === API) test.type(JSON.parse(got.body), 'object', name);
      }
    }
  },
);

t.test('a problem has the members of RFC 9457', async (test) => {
  const got = JSON.parse(renderRefusal(limited(3000), API, () => 0).body) as Record<string, unknown>;
  test.match(got, { type: 'about:blank', title: 'Too Many Requests', status: 429, requestId: 'r-1' });
  test.match(got['detail'], /try again in 3 seconds/);
});

t.test('429 tells when to come back, in fields and in words', async (test) => {
  const got = renderRefusal(limited(42_000), BROWSER, () => 0);
  test.equal(header(got, 'retry-after'), '42');
  test.equal(header(got, 'ratelimit-policy'), '"login";q=5;w=60');
  test.equal(header(got, 'ratelimit'), '"login";r=0;t=42');
  test.match(got.body, /42 seconds/);
  const rows = [
    { ms: 1, words: '1 second' },
    { ms: 89_000, words: '89 seconds' },
    { ms: 600_000, words: '10 minutes' },
    { ms: 3 * 3_600_000, words: '3 hours' },
  ];
  for (const { ms, words } of rows) {
    test.match(renderRefusal(limited(ms), API, () => 0).body, `again in ${words}.`, words);
  }
  const silent = renderRefusal(limited(42_000), { ...BROWSER, rateLimitFields: false }, () => 0);
  test.equal(header(silent, 'ratelimit') ?? header(silent, 'ratelimit-policy'), undefined, 'switched off');
  test.equal(header(silent, 'retry-after'), '42', 'the wait is told all the same');
  test.equal(header(renderRefusal(limited(1000), API), 'retry-after') !== undefined, true);
  test.equal(
    header(
      renderRefusal(refused(429), API, () => 0),
      'ratelimit',
    ),
    undefined,
    'no state, no fields',
  );
});

t.test('Retry-After is never too early and at most a fifth and a second late', async () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 1e8 }),
      fc.double({ min: 0, max: 0.999999, noNaN: true }),
      (ms, dice) => {
        const got = Number(
          header(
            renderRefusal(limited(ms), API, () => dice),
            'retry-after',
          ),
        );
        const least = Math.max(1, Math.ceil(ms / 1000));
        return Number.isInteger(got) && got >= least && got <= least * 1.2 + 1;
      },
    ),
  );
});

t.test('names and ids cannot break out of a field or a page', async (test) => {
  const got = renderRefusal(limited(1000, 'a"b\\c\r\nX: y'), { ...BROWSER, requestId: '<script>"' });
  test.notMatch(header(got, 'ratelimit'), /[\r\n\\]|a"b/);
  test.notMatch(got.body, /<script>"/);
});
