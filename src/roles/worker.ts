/**
 * One worker: gets its config from the supervisor, builds the engines, opens the gate, follows reloads,
 * drains.
 */
import process from 'node:process';
import { hostname } from 'node:os';
import path from 'node:path';
import { ipcChannel, type IpcChannel } from '../cluster/ipc-channel.js';
import { TOPICS, type SnapshotMessage } from '../cluster/messages.js';
import { createNotables, type NotableQueue } from '../cluster/notables.js';
import type { Config } from '../config/schema.js';
import { followBans, type FollowedBans } from '../controls/serve-bans.js';
import { steadyClock, systemClock } from '../core/clock.js';
import { describeFault, type Fault } from '../core/errors.js';
import { createStandInStore, ipcStore, type MemoryStore } from '../limits/index.js';
import type { LimiterStats } from '../limits/limiter-contract.js';
import { createAddressBook, type AddressBook } from '../limits/shared-address.js';
import { createGate, type Gate } from '../proxy/gate.js';
import { createRuleCache, noRuleCounts, type RuleCache, type RuleCounts } from '../rules/index.js';
import { createEventLog, type EventLog } from '../telemetry/log.js';
import { createMetrics, type Metrics } from '../telemetry/metrics.js';
import { createTelemetry, type Telemetry } from '../telemetry/telemetry.js';
import { buildEngines, type Engines } from './engines.js';
import { createLimitStores, type LimitStores } from './limit-stores.js';
import { limitGauges } from './limit-gauges.js';
import { createPublishing, publishingGauges, type Publishing } from './publishing.js';

const FAULT_NOTE_MS = 10_000;

type Parts = {
  readonly ruleCounts: RuleCounts;
  gate: Gate;
  engines: Engines;
  config: Config;
  readonly log: EventLog;
  readonly metrics: Metrics;
  readonly stores: LimitStores;
  readonly flush: () => void;
  readonly publishing: Publishing;
};

/** Runs until the supervisor ends it. `id` is the worker's number in events. */
export function runWorker(id: number): void {
  const channel = ipcChannel(process, () => process.connected);
  const store = ipcStore(channel);
  const lastGood = new Map<string, readonly string[]>();
  const addressBook = createAddressBook();
  const standInFor = keepStandIn();
  const ruleCache = createRuleCache();
  // Asked for before the config is, since no request is served before they are here.
  const bans = followBans(channel, systemClock);
  const kept = { channel, lastGood, addressBook, standInFor, ruleCache, bans };
  let parts: Parts | undefined;
  let work: Promise<void> = Promise.resolve();

  const apply = async (message: SnapshotMessage<Config>): Promise<void> => {
    if (parts === undefined) {
      parts = await open(message, { ...kept, store, id });
      return;
    }
    await swap(parts, message, kept);
  };
  channel.on(TOPICS.snapshot, (body) => {
    const message = body as SnapshotMessage<Config>;
    work = work
      .then(() => apply(message))
      .catch((error: unknown) => {
        if (parts === undefined) return fail(channel, error);
        channel.send(TOPICS.swapped, { version: message.version, problem: describeFault(error) });
      });
  });
  channel.on(TOPICS.ping, () => void channel.send(TOPICS.pong, {}));
  channel.on(TOPICS.askMetrics, () => {
    if (parts !== undefined) channel.send(TOPICS.feeds, parts.engines.reputation.status());
    void parts?.metrics.snapshot().then((snapshot) => channel.send(TOPICS.metrics, snapshot));
  });
  let draining: Promise<never> | undefined;
  const end = (): void => void (draining ??= drain(parts));
  channel.on(TOPICS.drain, end);
  // The supervisor is gone: nobody would replace or stop this worker, and its counters went with it.
  process.on('disconnect', end);
  // Signals go to the whole group from a terminal; only the supervisor acts on them.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  channel.send(TOPICS.hello, {});
}

/** Stays the same over reloads, unless they change what it stands in for. */
function keepStandIn(): (config: Config) => MemoryStore {
  let kept: { for: 'redis' | 'supervisor'; store: MemoryStore } | undefined;
  return (config) => {
    const stoodInFor = config.redis === undefined ? 'supervisor' : 'redis';
    if (kept?.for !== stoodInFor)
      kept = { for: stoodInFor, store: createStandInStore(steadyClock, stoodInFor) };
    return kept.store;
  };
}

type OpenDeps = Readonly<{
  channel: IpcChannel;
  store: ReturnType<typeof ipcStore>;
  /** Outlives every config: a reload while DNS is down keeps the origins' addresses. */
  lastGood: Map<string, readonly string[]>;
  addressBook: AddressBook;
  /** Likewise: what was counted along for while Redis is away. */
  standInFor: (config: Config) => MemoryStore;
  ruleCache: RuleCache;
  bans: FollowedBans;
  id: number;
}>;

async function open(message: SnapshotMessage<Config>, deps: OpenDeps): Promise<Parts> {
  const { config } = message;
  const { channel, store, lastGood, addressBook, standInFor, ruleCache, bans, id } = deps;
  const file = config.log.file === undefined ? undefined : path.resolve(config.baseDir, config.log.file);
  const log = createEventLog(config.log, { file, nowMs: systemClock.nowMs });
  const metrics = createMetrics(config.metrics, { sites: config.sites.map((site) => site.name) });
  const ruleCounts = noRuleCounts();
  const notables = createNotables((events) => channel.send(TOPICS.notable, events));
  const publishing = await createPublishing(config, { channel, log: log.note });
  const telemetry = createTelemetry(config.log, {
    log,
    metrics,
    notable: notables.push,
    publish: publishing.publish,
  });
  const stores = createLimitStores({
    embedded: store,
    log: log.note,
    node: message.node,
    workers: message.workers,
    worker: message.place,
    onHealth: (health) => channel.send(TOPICS.limitStore, health),
  });
  const engines = await buildEngines(config, {
    ...(await stores.prepare(config)),
    channel,
    lastGood,
    addressBook,
    standIn: standInFor(config),
    clock: systemClock,
    log: (level, text, fields) => log.note(level, text, fields),
    hashKey: message.hashKey,
    ruleCounts,
    ruleCache,
    bans: bans.set,
    onFault: quietly(log),
  });
  stores.keep();
  const gate = createGate({
    snapshot: engines.snapshot,
    credentials: message.credentials.map((pair) => pair ?? undefined),
    who: { node: hostname(), worker: id },
    nowMs: systemClock.nowMs,
    emit: telemetry.emit,
    onFault: (error) => log.note('error', describeFault(error)),
  });
  const flush = (): void => {
    telemetry.flush();
    notables.flush();
  };
  const parts: Parts = { gate, engines, config, log, metrics, stores, flush, ruleCounts, publishing };
  const limits = (): LimiterStats => parts.engines.limitStats();
  registerGauges({ metrics, gate, log, telemetry, notables, store, channel, limits, ruleCounts });
  limitGauges(metrics, stores);
  publishingGauges(metrics, publishing);
  await bans.known;
  const listen = await gate.listen();
  channel.send(TOPICS.ready, { listen, rules: engines.ruleCount, version: message.version });
  return parts;
}

type Gauged = Readonly<{
  metrics: Metrics;
  gate: Gate;
  log: EventLog;
  telemetry: Telemetry;
  notables: NotableQueue;
  store: OpenDeps['store'];
  channel: IpcChannel;
  limits: () => LimiterStats;
  ruleCounts: RuleCounts;
}>;

function registerGauges(gauged: Gauged): void {
  const { metrics, gate, log, telemetry, notables, store, channel, limits, ruleCounts } = gauged;
  const gauges: readonly [name: string, help: string, read: () => number][] = [
    ['requests_in_flight', 'Requests under way.', () => gate.stats().inFlight],
    ['connections', 'Open client connections.', () => gate.stats().connections],
    ['held_body_bytes', 'Bytes of request bodies held back for judging.', () => gate.stats().heldBytes],
    [
      'held_body_refused',
      'Requests cut off since too many bodies were held.',
      () => gate.stats().heldRefused,
    ],
    [
      'held_body_refused_address',
      'Requests cut off since one address had too many body bytes held.',
      () => gate.stats().heldRefusedAddress,
    ],
    [
      'requests_refused_address',
      'Requests and tunnels refused since one address had too many under way.',
      () => gate.stats().addressRefused,
    ],
    [
      'upstream_queue_timeouts',
      "Requests that waited too long for one of an origin's connections.",
      () => gate.stats().queueTimeouts,
    ],
    [
      'slow_readers_cut',
      'Connections cut since the client took nothing of its answer.',
      () => gate.stats().slowReadersCut,
    ],
    ['requests_delayed', 'Requests made to wait now.', () => gate.stats().delayed],
    ['delays_refused', 'Requests refused since too many waited.', () => gate.stats().delayRefused],
    ['answer_counts_in_flight', 'Counts on answers under way.', () => limits().background.inFlight],
    ['answer_counts_dropped', 'Counts on answers that were dropped.', () => limits().background.dropped],
    ['answer_counts_failed', 'Counts on answers that the store refused.', () => limits().background.failed],
    ['shared_address_sessions', 'Accepted sessions and candidates.', () => limits().shared.sessions],
    ['shared_address_dropped', 'Sessions forgotten for want of room.', () => limits().shared.dropped],
    ['log_lines_dropped', 'Log lines lost to a slow or broken sink.', log.dropped],
    ['events_dropped', 'Decision events dropped before the log.', telemetry.dropped],
    ['store_timeouts', 'Limit checks the supervisor did not answer in time.', () => store.stats().timeouts],
    ['decisions_not_shown', 'Notable decisions that only the log has.', notables.skipped],
    ['rule_set_overflows', 'Pattern sets split for want of memory.', () => ruleCounts.setOverflows],
    ['value_forms_cut', 'Values with more layers of encoding than are judged.', () => ruleCounts.formsCut],
    ['body_work_cut', 'Requests that asked for more work than `rules.workMax`.', () => ruleCounts.workCut],
    ['ipc_dropped', 'Messages to the supervisor that were not sent.', channel.dropped],
  ];
  for (const [name, help, read] of gauges) metrics.gauge(name, help, read);
}

async function swap(
  parts: Parts,
  message: SnapshotMessage<Config>,
  { channel, lastGood, addressBook, standInFor, ruleCache, bans }: Omit<OpenDeps, 'store' | 'id'>,
): Promise<void> {
  const { log, stores, ruleCounts } = parts;
  const engines = await buildEngines(message.config, {
    ...(await stores.prepare(message.config)),
    channel,
    lastGood,
    addressBook,
    standIn: standInFor(message.config),
    clock: systemClock,
    log: (level, text, fields) => log.note(level, text, fields),
    hashKey: message.hashKey,
    ruleCounts,
    ruleCache,
    bans: bans.set,
    onFault: quietly(log),
  }).catch((error: unknown) => {
    stores.abandon();
    throw error;
  });
  const before = parts.engines;
  parts.engines = engines;
  parts.config = message.config;
  parts.metrics.addSites(message.config.sites.map((site) => site.name));
  parts.gate.swap(
    engines.snapshot,
    message.credentials.map((pair) => pair ?? undefined),
  );
  log.reopen();
  stores.keep();
  channel.send(TOPICS.swapped, { version: message.version });
  // Requests under way keep the old engines; their pools close once idle.
  before.close().catch((error: unknown) => log.note('warn', describeFault(error)));
}

async function drain(parts: Parts | undefined): Promise<never> {
  if (parts === undefined) process.exit(0);
  const cut = await parts.gate.drain(parts.config.timeouts.drain);
  if (cut > 0) parts.log.note('warn', 'requests were cut at the end of the drain', { requests: cut });
  parts.flush();
  const lost = await parts.publishing.close();
  if (lost > 0) parts.log.note('warn', 'decision events were lost at the end', { events: lost });
  await parts.log.close();
  process.exit(0);
}

/** A dependency that is down breaks every request: one line in ten seconds a code is enough. */
function quietly(log: EventLog): (fault: Fault) => void {
  const last = new Map<string, number>();
  return (fault) => {
    const now = systemClock.nowMs();
    if (now - (last.get(fault.code) ?? 0) < FAULT_NOTE_MS) return;
    last.set(fault.code, now);
    log.note('warn', fault.message, { code: fault.code, remedy: fault.remedy });
  };
}

function fail(channel: IpcChannel, error: unknown): void {
  const sent = channel.send(TOPICS.failed, { problem: describeFault(error) });
  if (!sent) process.stderr.write(`${describeFault(error)}\n`);
  setTimeout(() => process.exit(1), 50);
}
