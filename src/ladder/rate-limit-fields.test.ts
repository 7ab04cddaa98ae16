import t from 'tap';
import type { LimitState } from '../core/finding.js';
import { rateLimitFields } from './rate-limit-fields.js';

const state = (policy: string, given: Partial<LimitState> = {}): LimitState => ({
  policy,
  by: 'ip',
  limit: 600,
  windowMs: 60_000,
  remaining: 100,
  resetMs: 30_500,
  retryAfterMs: 0,
  ...given,
});

t.test('one item a policy, the strictest first', (test) => {
  const fields = rateLimitFields([
    state('wide', { limit: 10_000, remaining: 9000, windowMs: 3_600_000 }),
    state('api'),
    state('login', { limit: 5, remaining: 0, retryAfterMs: 1200, resetMs: 1200 }),
  ]);
  test.same(fields, [
    'RateLimit-Policy',
    '"login";q=5;w=60, "api";q=600;w=60, "wide";q=10000;w=3600',
    'RateLimit',
    '"login";r=0;t=2, "api";r=100;t=31, "wide";r=9000;t=31',
  ]);
  test.end();
});

t.test('a policy that counts twice is told once, by the identity with less left', (test) => {
  const fields = rateLimitFields([state('api'), state('api', { by: 'session', remaining: 3 })]);
  test.equal(fields[3], '"api";r=3;t=31');
  test.end();
});

t.test('no states, no fields; many policies, a bounded list', (test) => {
  test.same(rateLimitFields([]), []);
  const many = rateLimitFields(Array.from({ length: 50 }, (_, at) => state(`p${at}`)));
  test.equal(many[1]!.split(', ').length, 8);
  test.end();
});

t.test('a name cannot leave its string, numbers are whole and never negative', (test) => {
  const [, policy, , limit] = rateLimitFields([
    state('a"b\\\r\n', { remaining: -0.5, windowMs: 10, resetMs: -5 }),
  ]);
  test.equal(policy, '"ab";q=600;w=1');
  test.equal(limit, '"ab";r=0;t=0');
  test.end();
});
