/**
 * What the companion tells Prometheus: the counters of the kernel as they stand there, and the agent's own.
 */
import { Counter, Gauge, Registry } from 'prom-client';
import type { Agent, AgentStats } from './agent.js';
import { REFUSED_REASONS } from './sync.js';

export type XdpMetricsDeps = Readonly<{
  prefix: string;
  interface: string;
  agent: Agent;
  /** Events that were read from the kernel, and times that their reader was started again. */
  events: () => Readonly<{ read: number; restarts: number; unread: number }>;
  nowMs: () => number;
}>;

/** Every label comes from a closed set, the counters' names from the filter itself. */
export function createXdpMetrics(deps: XdpMetricsDeps): Registry {
  const registry = new Registry();
  const stats = (): Readonly<AgentStats> => deps.agent.stats();
  const at = { registry, prefix: deps.prefix };
  kernelMetrics(at, deps.interface, stats);
  const gauge = (name: string, help: string, read: () => number): void => {
    addGauge(at, { name, help, labels: [] }, (set) => set({}, read()));
  };
  gauge('xdp_wanted_entries', 'Bans that the kernel should hold', () => stats().wanted);
  gauge('xdp_covered_entries', 'Bans within a wider one', () => stats().covered);
  gauge('xdp_drift_entries', 'Entries the kernel was off at the last look', () => stats().drift);
  gauge('xdp_last_sync_age_seconds', 'Since the kernel was last known to be in step; -1: never', () =>
    stats().inStepMs === 0 ? -1 : Math.max(0, deps.nowMs() - stats().inStepMs) / 1000,
  );
  gauge('xdp_sync_seconds', 'How long the last sync took', () => stats().syncMs / 1000);
  addGauge(
    at,
    { name: 'xdp_refused_entries', help: 'Bans not for the kernel', labels: ['reason'] },
    (set) => {
      for (const reason of REFUSED_REASONS) set({ reason }, stats().refused[reason] ?? 0);
    },
  );
  const counter = (name: string, help: string, read: () => number): void => {
    addCounter(at, { name, help, labels: [] }, (set) => set({}, read()));
  };
  counter('xdp_rounds_total', 'Rounds of the agent', () => stats().rounds);
  counter('xdp_syncs_total', 'Rounds that changed the kernel', () => stats().syncs);
  counter('xdp_drifts_total', 'Rounds that found the kernel changed by others', () => stats().drifts);
  counter('xdp_events_total', 'Sources first over a cap', () => deps.events().read);
  counter('xdp_events_unread_total', 'Lines of the event reader that were none', () => deps.events().unread);
  counter('xdp_event_reader_restarts_total', 'Event readers that ended', () => deps.events().restarts);
  addCounter(at, { name: 'xdp_failures_total', help: 'Rounds that ended early', labels: ['what'] }, (set) => {
    for (const [what, count] of Object.entries(stats().failures)) set({ what }, count);
  });
  return registry;
}

function kernelMetrics(at: At, iface: string, stats: () => Readonly<AgentStats>): void {
  const labels = ['group', 'verdict'];
  for (const unit of ['packets', 'bytes'] as const) {
    const help = `Incoming ${unit} by verdict; \`noted\` ones are counted again under their verdict`;
    addCounter(at, { name: `xdp_${unit}_total`, help, labels }, (set) => {
      for (const { group, name, ...counts } of stats().status?.counters ?? [])
        set({ group, verdict: name }, counts[unit]);
    });
  }
  const list = { name: 'xdp_list_entries', help: 'Entries in the kernel', labels: ['list'] };
  addGauge(at, list, (set) => {
    const status = stats().status;
    if (status === undefined) return;
    set({ list: 'ban' }, status.bans);
    set({ list: 'allow' }, status.allowed);
    set({ list: 'management' }, status.management);
  });
  addGauge(at, { name: 'xdp_generation', help: 'Number of the last sync in the kernel', labels: [] }, (set) =>
    set({}, stats().status?.generation ?? 0),
  );
  const info = { name: 'xdp_info', help: 'Where and how', labels: ['interface', 'mode', 'dry_run'] };
  addGauge(at, info, (set) => {
    const status = stats().status;
    const mode = status?.mode ?? 'off';
    set(
      { interface: iface, mode, dry_run: String(status?.settings.dryRun ?? false) },
      status === undefined ? 0 : 1,
    );
  });
}

type At = Readonly<{ registry: Registry; prefix: string }>;
type About = Readonly<{ name: string; help: string; labels: readonly string[] }>;
type Set = (labels: Record<string, string>, value: number) => void;

function addGauge({ registry, prefix }: At, { name, help, labels }: About, read: (set: Set) => void): void {
  new Gauge({
    name: prefix + name,
    help,
    labelNames: labels,
    registers: [registry],
    collect() {
      this.reset();
      read((values, value) => this.set(values, value));
    },
  });
}

/** Counted elsewhere: set to what stands there, each time somebody asks. */
function addCounter({ registry, prefix }: At, { name, help, labels }: About, read: (set: Set) => void): void {
  new Counter({
    name: prefix + name,
    help,
    labelNames: labels,
    registers: [registry],
    collect() {
      this.reset();
      read((values, value) => this.inc(values, value));
    },
  });
}
