import t from 'tap';
import type { Agent, AgentStats } from './agent.js';
import { FIXED_SETTINGS } from './answers.js';
import { createXdpMetrics } from './metrics.js';

function statsOf(change: Partial<AgentStats> = {}): AgentStats {
  return {
    rounds: 3,
    syncs: 2,
    failures: { kernel: 0, bans: 1, guarded: 0, sync: 0 },
    inStepMs: 70_000,
    syncMs: 250,
    ...{ drift: 0, drifts: 1, leftOut: 0, wanted: 12, allowed: 2, covered: 1 },
    refused: { everything: 2 },
    status: {
      attached: true,
      mode: 'driver',
      linkId: 1,
      settings: {
        ...FIXED_SETTINGS,
        dryRun: false,
        packetsPerSecond: 1,
        synPerSecond: 1,
        deepVlan: 'drop',
        management: [],
      },
      ...{
        generation: 9,
        bans: 12,
        allowed: 2,
        management: 1,
        memoryBytes: 1,
        refused: 0,
        replaced: 0,
        leftOut: 0,
      },
      counters: [
        { group: 'dropped', name: 'banned', packets: 5, bytes: 300 },
        { group: 'noted', name: 'eventLost', packets: 4, bytes: 0 },
      ],
    },
    ...change,
  };
}

async function textOf(stats: () => AgentStats): Promise<string> {
  const agent: Agent = { round: async () => true, idle: async () => undefined, stats };
  const events = () => ({ read: 7, restarts: 1, unread: 0 });
  const deps = { prefix: 'tidegate_', interface: 'eth0', agent, events, nowMs: () => 75_000 };
  const registry = createXdpMetrics(deps);
  await registry.metrics();
  return registry.metrics();
}

t.test('the counters of the kernel stand as they are there, however often somebody asks', async (t) => {
  const text = await textOf(statsOf);
  for (const line of [
    'tidegate_xdp_packets_total{group="dropped",verdict="banned"} 5',
    'tidegate_xdp_bytes_total{group="dropped",verdict="banned"} 300',
    'tidegate_xdp_packets_total{group="noted",verdict="eventLost"} 4',
    'tidegate_xdp_list_entries{list="ban"} 12',
    'tidegate_xdp_list_entries{list="management"} 1',
    'tidegate_xdp_generation 9',
    'tidegate_xdp_info{interface="eth0",mode="driver",dry_run="false"} 1',
    'tidegate_xdp_wanted_entries 12',
    'tidegate_xdp_refused_entries{reason="everything"} 2',
    'tidegate_xdp_refused_entries{reason="allowlist"} 0',
    'tidegate_xdp_last_sync_age_seconds 5',
    'tidegate_xdp_sync_seconds 0.25',
    'tidegate_xdp_drifts_total 1',
    'tidegate_xdp_events_total 7',
    'tidegate_xdp_failures_total{what="bans"} 1',
  ])
    t.ok(text.split('\n').includes(line), line);
});

t.test('a filter that is not there shows as such', async (t) => {
  const text = await textOf(() => statsOf({ status: undefined, inStepMs: 0 }));
  t.match(text, 'tidegate_xdp_info{interface="eth0",mode="off",dry_run="false"} 0');
  t.match(text, 'tidegate_xdp_last_sync_age_seconds -1');
  t.notMatch(text, 'xdp_packets_total{');
});
