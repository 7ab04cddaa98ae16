import t from 'tap';
import type { LimitsShown } from '../admin/route.js';
import { inWords, printLimits } from './limits-print.js';

const row: LimitsShown['limits'][number] = {
  policy: 'login',
  by: 'ip',
  role: 'limit',
  algorithm: 'sliding-log',
  limit: 5,
  windowMs: 60_000,
  used: 5,
  remaining: 0,
  resetMs: 41_200,
  retryAfterMs: 12_001,
  observe: false,
};

t.test('a table: what counts, what is left, when it is back', (test) => {
  const role = 'address' as const;
  const fresh = { ...row, policy: 'api', role, used: 0, remaining: 30_000, limit: 30_000 };
  const shown = { limits: [row, { ...fresh, resetMs: 0, retryAfterMs: 0, observe: true }] };
  test.equal(
    printLimits(shown, false),
    [
      'policy  by  used                 left   back in full  next request      remarks',
      'login   ip  5 of 5 in 1 min      0      in 42 s       refused for 13 s  sliding-log',
      'api     ip  0 of 30000 in 1 min  30000  now           passes            ' +
        'sliding-log, all behind the address, only observed',
      '',
    ].join('\n'),
  );
  test.match(printLimits(shown, true), /set back: 2;/);
  test.match(printLimits({ limits: [] }, false), /no policy counts/);
  test.end();
});

t.test('durations in words, never rounded down', (test) => {
  const rows: [ms: number, words: string][] = [
    [0, '0 ms'],
    [999, '999 ms'],
    [1001, '2 s'],
    [60_000, '1 min'],
    [125_000, '2 min 5 s'],
    [3_600_000, '1 h'],
    [3_601_000, '1 h 1 min'],
    [86_400_000, '1 d'],
    [90_000_001, '1 d 2 h'],
    [7 * 86_400_000, '7 d'],
  ];
  for (const [ms, words] of rows) test.equal(inWords(ms), words);
  test.end();
});
