/** One ordinary event, for tests. */
import type { DecisionEvent, Step } from '../core/event.js';

const STEPS = ['reputation', 'limits', 'headers', 'rules', 'decision'] as const;

export function eventFor(more: Partial<DecisionEvent> = {}): DecisionEvent {
  return {
    v: 1,
    time: '2026-01-02T03:04:05.678Z',
    requestId: 'a1b2c3-1f',
    node: 'edge-1',
    worker: 1,
    site: 'shop',
    host: 'shop.example.com',
    client: {
      ip: '192.0.2.1',
      key: '192.0.2.1',
      asn: 64496,
      userAgent: 'Mozilla/5.0 (X11; Linux x86_64)',
      session: 'h:12ab',
    },
    method: 'GET',
    path: '/catalogue/item',
    query: 'page=2&sort=price',
    status: 200,
    action: 'pass',
    reason: 'nothing against it',
    ruleIds: [],
    score: 0,
    steps: STEPS.map((stage): Step => ({ stage, before: 0, after: 0, durationUs: 3, findings: [] })),
    durationUs: { total: 900, reputation: 3, limits: 3, headers: 3, rules: 3, decision: 3 },
    upstream: { address: 'http://10.0.0.1:3000', status: 200, durationUs: 800, attempts: 1 },
    bytesIn: 0,
    bytesOut: 5120,
    ...more,
  };
}
