/**
 * Prometheus metrics of one process, and their sum over workers. Every label comes from a closed set fixed
 * when the config loads (site, rule, policy, stage, action, method or `other`), so nobody outside can add a
 * series. A worker that died stays in the sum with its last counters.
 */
import client, { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { DecisionEvent } from '../core/event.js';
import type { MetricsConfig } from './config.js';

export type MetricSets = Readonly<{ sites: readonly string[] }>;
/** `getMetricsAsJSON`: survives IPC. */
export type MetricSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export type Labelled = Readonly<{
  help: string;
  label: string;
  read: () => readonly (readonly [label: string, value: number])[];
}>;

export type Metrics = {
  record(event: DecisionEvent): void;
  /** Gauges that are read when asked: in flight, held bytes …; undefined: there is no such thing now. */
  gauge(name: string, help: string, read: () => number | undefined): void;
  /** The same with one label, from a set that the config closes; read gives label and value. */
  gauges(name: string, about: Labelled): void;
  /** Counts that somebody else keeps, and that only go up: read like gauges, shown as counters. */
  counter(name: string, help: string, read: () => number | undefined): void;
  counters(name: string, about: Labelled): void;
  /** Sites that a reload brought; those that went stay, since their counters do. */
  addSites(names: readonly string[]): void;
  snapshot(): Promise<MetricSnapshot>;
};

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const ACTIONS = new Set(['pass', 'observe', 'block', 'limit', 'throttle', 'error']);
const FINDINGS_MAX = 2000;
const SITES_MAX = 1000;
const STAGE_NAMES = ['reputation', 'limits', 'headers', 'rules', 'decision', 'total'] as const;
const STAGE_SECONDS = [5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.6e-4, 3.2e-4, 1e-3, 5e-3, 25e-3, 0.1, 1];
const UPSTREAM_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Counts in plain numbers on the hot path; prom-client sees the difference when somebody asks. */
type Tally = { child: Counter.Internal; pending: number };
const countUp = (tally: Tally, by = 1): void => void (tally.pending += by);

/** `sets.sites`: the configured names; any other site counts as `other`. */
export function createMetrics(config: MetricsConfig, sets: MetricSets): Metrics {
  const registry = new Registry();
  const { prefix } = config;
  const counters = openCounters(prefix, registry);
  const observe = openHistograms(prefix, registry);
  buildInfo(prefix, registry);
  const sites = new Set(sets.sites);
  const requestTally = requestTallies(counters, sites);
  const findingTally = findingTallies(counters);
  const { aborts, bytesIn, bytesOut, retries } = counters;

  let sampled = 0;
  return {
    record(event) {
      countUp(requestTally(event));
      for (const step of event.steps) {
        for (const finding of step.findings) countUp(findingTally(finding.id, step.stage));
      }
      if (event.bytesIn > 0) countUp(bytesIn, event.bytesIn);
      if (event.bytesOut > 0) countUp(bytesOut, event.bytesOut);
      if (event.clientAborted === true) countUp(aborts);
      const attempts = event.upstream?.attempts ?? 0;
      if (attempts > 1) countUp(retries, attempts - 1);
      if (event.error !== undefined) countUp(counters.upstreamErrors[errorKind(event.upstream?.error)]);
      // Every eighth request is enough for a histogram and keeps seven lookups off the others.
      if ((sampled++ & 7) === 0) observe(event);
    },
    addSites(names) {
      for (const name of names) if (sites.size < SITES_MAX) sites.add(name);
    },
    ...readers(prefix, registry),
    async snapshot() {
      counters.settle();
      return registry.getMetricsAsJSON();
    },
  };
}

/** Metrics whose values are read when somebody asks. */
function readers(
  prefix: string,
  registry: Registry,
): Pick<Metrics, 'gauge' | 'gauges' | 'counter' | 'counters'> {
  const about = (name: string, help: string) => ({ name: `${prefix}${name}`, help, registers: [registry] });
  return {
    gauge(name, help, read) {
      new Gauge({
        ...about(name, help),
        collect() {
          const value = read();
          if (value === undefined) this.remove();
          else this.set(value);
        },
      });
    },
    gauges(name, { help, label, read }) {
      new Gauge({
        ...about(name, help),
        labelNames: [label],
        collect() {
          this.reset();
          for (const [of, value] of read()) this.set({ [label]: of }, value);
        },
      });
    },
    counter(name, help, read) {
      new Counter({
        ...about(name, help),
        collect() {
          this.remove();
          const value = read();
          if (value !== undefined) this.inc(value);
        },
      });
    },
    counters(name, { help, label, read }) {
      new Counter({
        ...about(name, help),
        labelNames: [label],
        collect() {
          this.reset();
          for (const [of, value] of read()) this.inc({ [label]: of }, value);
        },
      });
    },
  };
}

type ErrorKind = 'refused' | 'reset' | 'timeout' | 'dns' | 'other';

/** System and undici codes → a closed set. */
function errorKind(code: string | undefined): ErrorKind {
  if (code === undefined) return 'other';
  if (code === 'ECONNREFUSED' || code === 'EHOSTUNREACH' || code === 'ENETUNREACH') return 'refused';
  if (code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET') return 'reset';
  if (code.includes('TIMEOUT') || code === 'ETIMEDOUT') return 'timeout';
  return code === 'ENOTFOUND' || code === 'EAI_AGAIN' ? 'dns' : 'other';
}

type Counters = ReturnType<typeof openCounters>;

function openCounters(prefix: string, registry: Registry) {
  const tallies: Tally[] = [];
  const open = (name: string, help: string, labelNames: string[] = []): Counter =>
    new Counter({ name: `${prefix}${name}`, help, labelNames, registers: [registry] });
  const tallyOf = (of: Counter, labels: Record<string, string> = {}): Tally => {
    const tally = { child: of.labels(labels), pending: 0 };
    tallies.push(tally);
    return tally;
  };
  const plain = (name: string, help: string): Tally => tallyOf(open(name, help));
  const errors = open('upstream_errors_total', 'Requests the origin did not answer, by kind.', ['kind']);
  const errorTally = (kind: ErrorKind): Tally => tallyOf(errors, { kind });
  const requestLabels = ['site', 'method', 'action', 'status'];
  return {
    tallyOf,
    requests: open('requests_total', 'Requests by site, method, action and class of status.', requestLabels),
    findings: open('findings_total', 'Findings by id: rules, limits, lists, header checks.', ['id', 'stage']),
    overflow: plain('label_overflow_total', 'Labels that went to `other` since their set was full.'),
    aborts: plain('client_aborts_total', 'Clients that left before the end.'),
    bytesIn: plain('request_body_bytes_total', 'Bytes of request bodies.'),
    bytesOut: plain('response_body_bytes_total', 'Bytes of response bodies.'),
    retries: plain('upstream_retries_total', 'Attempts beyond the first.'),
    upstreamErrors: {
      refused: errorTally('refused'),
      reset: errorTally('reset'),
      timeout: errorTally('timeout'),
      dns: errorTally('dns'),
      other: errorTally('other'),
    } satisfies Record<ErrorKind, Tally>,
    /** Hands what was counted since the last time to prom-client. */
    settle(): void {
      for (const tally of tallies) {
        if (tally.pending > 0) tally.child.inc(tally.pending);
        tally.pending = 0;
      }
    },
  };
}

function openHistograms(prefix: string, registry: Registry): (event: DecisionEvent) => void {
  const stages = new Histogram({
    name: `${prefix}stage_duration_seconds`,
    help: 'Time in each stage, of one request in eight; `total` is the whole request.',
    buckets: STAGE_SECONDS,
    labelNames: ['stage'],
    registers: [registry],
  });
  const upstream = new Histogram({
    name: `${prefix}upstream_duration_seconds`,
    help: 'Time until the origin began to answer, of one request in eight.',
    buckets: UPSTREAM_SECONDS,
    registers: [registry],
  });
  const children = STAGE_NAMES.map((stage) => ({ stage, child: stages.labels({ stage }) }));
  return (event) => {
    for (const { stage, child } of children) child.observe(event.durationUs[stage] / 1e6);
    const origin = event.upstream;
    if (origin !== undefined && origin.status > 0) upstream.observe(origin.durationUs / 1e6);
  };
}

/** At most (sites + 1) × 8 × 7 × 6 of them, each opened when first needed. */
function requestTallies(counters: Counters, sites: ReadonlySet<string>): (event: DecisionEvent) => Tally {
  const known = new Map<string, Tally>();
  return (event) => {
    const site = sites.has(event.site) ? event.site : 'other';
    const method = METHODS.has(event.method) ? event.method : 'other';
    const action = ACTIONS.has(event.action) ? event.action : 'other';
    const status = event.status >= 100 && event.status < 600 ? `${Math.floor(event.status / 100)}xx` : 'none';
    const key = `${site} ${method} ${action} ${status}`;
    let tally = known.get(key);
    if (tally === undefined) {
      tally = counters.tallyOf(counters.requests, { site, method, action, status });
      known.set(key, tally);
    }
    return tally;
  };
}

function findingTallies(counters: Counters): (id: string, stage: string) => Tally {
  const known = new Map<string, Tally>();
  const find = (id: string, stage: string): Tally => {
    const key = `${stage} ${id}`;
    const tally = known.get(key);
    if (tally !== undefined) return tally;
    if (known.size >= FINDINGS_MAX && id !== 'other') {
      countUp(counters.overflow);
      return find('other', stage);
    }
    const opened = counters.tallyOf(counters.findings, { id, stage });
    known.set(key, opened);
    return opened;
  };
  return find;
}

function buildInfo(prefix: string, registry: Registry): void {
  const info = new Gauge({
    name: `${prefix}build_info`,
    help: 'Always 1; the labels say what runs.',
    labelNames: ['node'],
    registers: [registry],
    aggregator: 'first',
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
