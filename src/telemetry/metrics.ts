/**
 * Prometheus metrics of one process, and their sum over workers. Every label comes from a closed set fixed when the
 * config loads (site, rule, policy, stage, action, method or `other`), so nobody outside can add a series. A
 * worker that died stays in the sum with its last counters.
 */
import client, { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { DecisionEvent } from '../core/event.js';
import type { MetricsConfig } from './config.js';

export type MetricSets = Readonly<{ sites: readonly string[] }>;
/** `getMetricsAsJSON`: survives IPC. */
export type MetricSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export type Metrics = {
  record(event: DecisionEvent): void;
  /** Gauges that are read when asked: in flight, held bytes, dropped lines … */
  gauge(name: string, help: string, read: () => number): void;
  snapshot(): Promise<MetricSnapshot>;
};

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const ACTIONS = new Set(['pass', 'observe', 'block', 'limit', 'throttle', 'error']);
const FINDINGS_MAX = 2000;
const STAGE_NAMES = ['reputation', 'limits', 'headers', 'rules', 'decision', 'total'] as const;
const STAGE_SECONDS = [5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.6e-4, 3.2e-4, 1e-3, 5e-3, 25e-3, 0.1, 1];
const UPSTREAM_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Counts in plain numbers on the hot path; prom-client sees the difference when somebody asks. */
type Tally = { child: Counter.Internal; pending: number };
const countUp = (tally: Tally, by = 1): void => void (tally.pending += by);

export function createMetrics(config: MetricsConfig, sets: MetricSets): Metrics {
  const registry = new Registry();
  const { prefix } = config;
  const tallies: Tally[] = [];
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name: `${prefix}${name}`, help, labelNames, registers: [registry] });
  const tallyOf = (of: Counter, labels: Record<string, string> = {}): Tally => {
    const tally = { child: of.labels(labels), pending: 0 };
    tallies.push(tally);
    return tally;
  };
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `${prefix}${name}`, help, buckets, labelNames: ['stage'], registers: [registry] });

  const requests = counter('requests_total', 'Requests by site, method, what was done and class of the status.', [
    'site', 'method', 'action', 'status',
  ]);
  const findings = counter('findings_total', 'Findings by id: rules, limits, lists, header checks.', ['id', 'stage']);
  const overflow = tallyOf(counter('label_overflow_total', 'Labels that went to `other` since their set was full.'));
  const aborts = tallyOf(counter('client_aborts_total', 'Clients that left before the end.'));
  const bytesIn = tallyOf(counter('request_body_bytes_total', 'Bytes of request bodies.'));
  const bytesOut = tallyOf(counter('response_body_bytes_total', 'Bytes of response bodies.'));
  const retries = tallyOf(counter('upstream_retries_total', 'Attempts beyond the first.'));
  const upstreamErrors = tallyOf(counter('upstream_errors_total', 'Requests the origin did not answer.'));
  const stages = histogram('stage_duration_seconds', 'Time in each stage, of one request in eight; `total` is the whole request.', STAGE_SECONDS);
  const upstream = new Histogram({
    name: `${prefix}upstream_duration_seconds`, help: 'Time until the origin began to answer, of one request in eight.', buckets: UPSTREAM_SECONDS, registers: [registry],
  });
  const stageChildren = STAGE_NAMES.map((stage) => stages.labels({ stage }));
  buildInfo(prefix, registry);

  const sites = new Set(sets.sites);
  const requestTallies = new Map<string, Tally>();
  const findingTallies = new Map<string, Tally>();

  const requestTally = (event: DecisionEvent): Tally => {
    const site = sites.has(event.site) ? event.site : 'other';
    const method = METHODS.has(event.method) ? event.method : 'other';
    const action = ACTIONS.has(event.action) ? event.action : 'other';
    const status = event.status >= 100 && event.status < 600 ? `${Math.floor(event.status / 100)}xx` : 'none';
    const key = `${site} ${method} ${action} ${status}`;
    let tally = requestTallies.get(key);
    if (tally === undefined) requestTallies.set(key, (tally = tallyOf(requests, { site, method, action, status })));
    return tally;
  };
  const findingTally = (id: string, stage: string): Tally => {
    const key = `${stage} ${id}`;
    const known = findingTallies.get(key);
    if (known !== undefined) return known;
    if (findingTallies.size >= FINDINGS_MAX && id !== 'other') {
      countUp(overflow);
      return findingTally('other', stage);
    }
    const tally = tallyOf(findings, { id, stage });
    findingTallies.set(key, tally);
    return tally;
  };

  let sampled = 0;
  return {
    record(event) {
      countUp(requestTally(event));
      for (const step of event.steps) for (const finding of step.findings) countUp(findingTally(finding.id, step.stage));
      if (event.bytesIn > 0) countUp(bytesIn, event.bytesIn);
      if (event.bytesOut > 0) countUp(bytesOut, event.bytesOut);
      if (event.clientAborted === true) countUp(aborts);
      if (event.upstream !== undefined && event.upstream.attempts > 1) countUp(retries, event.upstream.attempts - 1);
      if (event.error !== undefined) countUp(upstreamErrors);
      // Every eighth request is enough for a histogram and keeps seven lookups off the others.
      if ((sampled++ & 7) !== 0) return;
      const { durationUs } = event;
      STAGE_NAMES.forEach((stage, index) => stageChildren[index]!.observe(durationUs[stage] / 1e6));
      if (event.upstream !== undefined && event.upstream.status > 0) upstream.observe(event.upstream.durationUs / 1e6);
    },
    gauge(name, help, read) {
      new Gauge({
        name: `${prefix}${name}`,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },
    async snapshot() {
      for (const tally of tallies) {
        if (tally.pending === 0) continue;
        tally.child.inc(tally.pending);
        tally.pending = 0;
      }
      return registry.getMetricsAsJSON();
    },
  };
}

function buildInfo(prefix: string, registry: Registry): void {
  const info = new Gauge({
    name: `${prefix}build_info`, help: 'Always 1; the labels say what runs.', labelNames: ['node'], registers: [registry], aggregator: 'first',
  });
  info.set({ node: process.version }, 1);
  client.collectDefaultMetrics({ register: registry, prefix });
}

/** Prometheus text of the sum of all snapshots; gauges are summed too, unless they say otherwise. */
export async function sumOf(snapshots: readonly MetricSnapshot[]): Promise<string> {
  if (snapshots.length === 0) return '';
  return AggregatorRegistry.aggregate(snapshots as never).metrics();
}

/** What a dead worker leaves to the sum: its counters and histograms, not its gauges. */
export function retired(snapshot: MetricSnapshot): MetricSnapshot {
  return snapshot.filter((metric) => {
    const type = metric.type as unknown as string;
    return type === 'counter' || type === 'histogram';
  });
}

/** One snapshot that counts what all of these counted: what many dead workers left stays as long as one. */
export async function joined(snapshots: readonly MetricSnapshot[]): Promise<MetricSnapshot> {
  return AggregatorRegistry.aggregate(snapshots as never).getMetricsAsJSON();
}
