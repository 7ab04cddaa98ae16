import fc from 'fast-check';
import t from 'tap';
import type { RequestFacts } from '../core/request.js';
import { headersSection } from './config.js';
import { createHeaderScoring } from './score.js';

const score = createHeaderScoring(headersSection.parse({}), { apiKeyHeader: 'X-Api-Key' });

function facts(method: string, headers: readonly (readonly [string, string])[]): RequestFacts {
  const known = new Map(headers.map(([name, value]) => [name.toLowerCase(), value]));
  return { method, rawHeaders: headers.flat(), headers: known } as unknown as RequestFacts;
}

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const UA = ['User-Agent', CHROME] as const;
const ACCEPT = ['Accept', '*/*'] as const;
const REFERER = ['Referer', 'https://shop.example.com/'] as const;
const agent = (text: string) => ['User-Agent', text] as const;

type Row = readonly [
  name: string,
  method: string,
  headers: readonly (readonly [string, string])[],
  ids: readonly string[],
];

const ROWS: readonly Row[] = [
  [
    'a browser navigation',
    'GET',
    [UA, ['Accept', 'text/html,*/*;q=0.8'], ['Sec-Fetch-Mode', 'navigate']],
    [],
  ],
  [
    'a browser form',
    'POST',
    [UA, ACCEPT, REFERER, ['Content-Type', 'application/x-www-form-urlencoded']],
    [],
  ],
  ['a form with its referer withheld', 'POST', [UA, ACCEPT, ['Origin', 'https://shop.example.com']], []],
  ['a fetch without Accept', 'GET', [UA, ['Sec-Fetch-Mode', 'no-cors'], ['Sec-Fetch-Site', 'none']], []],
  [
    'a beacon of the browser itself',
    'POST',
    [UA, ['Sec-Fetch-Mode', 'no-cors'], ['Sec-Fetch-Site', 'none']],
    [],
  ],
  ['a mobile app', 'GET', [agent('okhttp/4.12.0'), ACCEPT], []],
  ['an API client with its key', 'POST', [agent('acme-sync/2'), ACCEPT, ['x-api-key', 'k']], []],
  ['an API client with a token', 'POST', [agent('acme-sync/2'), ACCEPT, ['Authorization', 'Bearer x']], []],
  ['a post from nowhere', 'POST', [UA, ACCEPT], ['REFERER-MISSING']],
  [
    'a reloaded navigation without referer',
    'POST',
    [UA, ACCEPT, ['Sec-Fetch-Mode', 'navigate'], ['Sec-Fetch-Site', 'none']],
    ['REFERER-MISSING'],
  ],
  ['no User-Agent', 'GET', [ACCEPT], ['UA-EMPTY']],
  ['a blank User-Agent', 'GET', [agent(' \t'), ACCEPT], ['UA-EMPTY']],
  ['no Accept', 'GET', [UA], ['ACCEPT-MISSING']],
  [
    'requests, posting',
    'POST',
    [agent('python-requests/2.28.0')],
    ['UA-AUTOMATION', 'ACCEPT-MISSING', 'REFERER-MISSING'],
  ],
  ...[
    'curl/8.5.0',
    'Wget/1.21',
    'Go-http-client/1.1',
    'Java/17',
    'libwww-perl/6.7',
    'Scrapy/2.11 (+https://scrapy.org)',
    'Mozilla/5.0 HeadlessChrome/126.0',
    'sqlmap/1.7',
    'Mozilla/5.0 (Nikto/2.5)',
  ].map((text): Row => [text, 'GET', [agent(text), ACCEPT], ['UA-AUTOMATION']]),
  ['CR in a value', 'GET', [UA, ACCEPT, ['X-A', 'a\rSet-Cookie: b']], ['HEADER-CRLF']],
  ['LF in a value', 'GET', [UA, ACCEPT, ['X-A', 'a\nb']], ['HEADER-CRLF']],
  ['NUL in a value', 'GET', [UA, ACCEPT, ['X-A', 'a\0b']], ['HEADER-CRLF']],
  ['an encoded split', 'GET', [UA, ACCEPT, ['X-Next', '/a%0d%0aSet-Cookie:%20b=1']], ['HEADER-CRLF']],
  ['an encoded split with LF alone', 'GET', [UA, ACCEPT, ['X-Next', '/a%0ALocation%3A//x']], ['HEADER-CRLF']],
  ['an encoded answer', 'GET', [UA, ACCEPT, ['X-Next', 'a%0d%0a%0d%0aHTTP/1.1%20200%20OK']], ['HEADER-CRLF']],
  [
    'a split in a referer',
    'GET',
    [UA, ACCEPT, ['Referer', 'https://a/?x=%0d%0aSet-Cookie:a=b']],
    ['HEADER-CRLF'],
  ],
  [
    "a person's lines in a referer",
    'GET',
    [UA, ACCEPT, ['Referer', 'https://a/?text=Hi%0AName:%20Ann%0ALocation:%20Rome']],
    [],
  ],
  [
    "a person's lines in a cookie",
    'GET',
    [UA, ACCEPT, ['Cookie', 'draft=Dear%20all%0D%0ASubject:%20tea']],
    [],
  ],
];

t.test('what a head is worth', async (test) => {
  for (const [name, method, headers, ids] of ROWS) {
    test.same(
      score(facts(method, headers)).map((finding) => finding.id),
      ids,
      name,
    );
  }
});

t.test('points are those of the config', async (test) => {
  const points = (findings: ReturnType<typeof score>) => findings.map((finding) => finding.points);
  test.same(points(score(facts('POST', [agent('curl/8')]))), [30, 15, 10]);
  test.same(points(score(facts('GET', [ACCEPT]))), [40]);
  const own = createHeaderScoring(
    headersSection.parse({ points: { automation: 7 }, automationSignatures: ['ACME'] }),
    {},
  );
  test.same(points(own(facts('GET', [agent('acme/1'), ACCEPT]))), [7]);
});

t.test('any bytes in any header: never throws', async () => {
  const text = fc.string({ unit: 'binary', maxLength: 200 });
  fc.assert(
    fc.property(
      fc.constantFrom('GET', 'POST', 'X'),
      fc.array(fc.tuple(text, text), { maxLength: 20 }),
      (method, headers) => {
        score(facts(method, headers));
      },
    ),
  );
});

t.test('a long hostile value stays linear', async (test) => {
  for (const part of ['%0a', '%0d%0a', '%0a%20', '%0ax-', '%0acontent-']) {
    const value = part.repeat(20_000);
    const from = performance.now();
    score(facts('GET', [UA, ACCEPT, ['X-A', value]]));
    test.ok(performance.now() - from < 3000, part);
  }
});
