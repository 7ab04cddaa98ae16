/**
 * The supervisor: loads the config, holds what workers share (counters, observed scores), forks and watches them,
 * reloads on SIGHUP, drains on SIGTERM, and runs the admin listener. It never touches a request.
 */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { createAdminServer, type AdminServer } from '../admin/server.js';
import { createFleet, type Fleet, type Member } from '../cluster/fleet.js';
import { TOPICS, type Ready, type SnapshotMessage, type Swapped } from '../cluster/messages.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { steadyClock, systemClock } from '../core/clock.js';
import { describeFault, Fault } from '../core/errors.js';
import type { DecisionEvent } from '../core/event.js';
import { randomHashKey } from '../identity/index.js';
import { memoryStore, serveStore } from '../limits/index.js';
import { serveObserved } from '../reputation/serve-observed.js';
import { createEventLog } from '../telemetry/log.js';
import { createMetrics, retired, sumOf, type MetricSnapshot } from '../telemetry/metrics.js';
import { splitAddress } from '../proxy/gate.js';
import { buildEngines } from './engines.js';

const METRICS_WAIT_MS = 500;
const SWAP_WAIT_MS = 30_000;

type WorkerState = { member: Member; ready: Ready | undefined; version: number; metrics: MetricSnapshot | undefined };

export type Supervisor = {
  /** Resolves when every worker listens. Throws a Fault where the gate cannot start; then nothing stays open. */
  start(): Promise<{ listen: string[]; admin: string | undefined; workers: number }>;
  reload(): Promise<void>;
  stop(): Promise<void>;
};

export function createSupervisor(file: string): Supervisor {
  return new Supervision(file);
}

class Supervision implements Supervisor {
  private config!: Config;
  private version = 1;
  private hashKey = randomHashKey();
  private store!: ReturnType<typeof memoryStore>;
  private readonly states = new Map<number, WorkerState>();
  private readonly notable: DecisionEvent[] = [];
  private readonly dead: MetricSnapshot[] = [];
  private observed: ReturnType<typeof serveObserved> | undefined;
  private log!: ReturnType<typeof createEventLog>;
  private metrics!: ReturnType<typeof createMetrics>;
  private fleet: Fleet | undefined;
  private admin: AdminServer | undefined;
  private wake: (() => void) | undefined;
  private fatal: string | undefined;
  private restarts = 0;
  private reloads = 0;
  private reloading: Promise<void> = Promise.resolve();

  constructor(private readonly file: string) {}

  async start(): Promise<{ listen: string[]; admin: string | undefined; workers: number }> {
    const config = await loadConfig(this.file);
    this.hashKey = process.env[config.identity.hashKeyEnv] ?? this.hashKey;
    this.store = memoryStore({ clock: steadyClock, keysMax: config.limits.keysMax });
    await this.prove(config);
    this.config = config;
    this.log = createEventLog(config.log, { file: undefined, nowMs: systemClock.nowMs });
    this.metrics = createMetrics(config.metrics, { sites: [] });
    this.metrics.gauge('worker_restarts', 'Workers that died and were replaced.', () => this.restarts);
    this.metrics.gauge('reloads', 'Configs taken over since the start.', () => this.reloads);
    this.metrics.gauge('limit_keys', 'Identities the counter store holds.', () => this.store.stats().keys);
    this.metrics.gauge('limit_keys_evicted', 'Identities dropped since the store was full.', () => this.store.stats().evicted);
    this.observed = serveObserved(config.reputation, { baseDir: config.baseDir, clock: systemClock, log: this.note });
    await this.observed.start();
    const admin = await this.openAdmin();
    const workers = this.workerCount();
    this.fleet = createFleet(entryScript(), { onOpen: (member) => this.onOpen(member), onGone: this.onGone });
    this.fleet.start(workers);
    await this.until(() => this.fatal !== undefined || this.readyStates().length >= workers);
    if (this.fatal !== undefined) {
      await this.stop();
      throw new Fault('START_FAILED', { why: this.fatal });
    }
    const listen = this.readyStates()[0]?.ready?.listen ?? [];
    return { listen, admin, workers };
  }

  /** Builds everything once, as a worker will: a config that passes here can be carried out. */
  private async prove(config: Config): Promise<void> {
    const engines = await buildEngines(config, {
      store: this.store,
      channel: undefined,
      clock: systemClock,
      log: () => undefined,
      hashKey: this.hashKey,
    });
    await engines.close();
  }

  private async loadProven(): Promise<Config> {
    const config = await loadConfig(this.file);
    await this.prove(config);
    return config;
  }

  reload(): Promise<void> {
    this.reloading = this.reloading.catch(() => undefined).then(() => this.takeOver());
    return this.reloading;
  }

  private async takeOver(): Promise<void> {
    const next = await this.loadProven().catch((error: unknown) => {
      this.log.note('error', `reload refused, the running config stays: ${describeFault(error)}`);
      throw error;
    });
    const fixed = ['listen', 'workers', 'admin', 'log'] as const;
    const changed = fixed.filter((key) => JSON.stringify(next[key]) !== JSON.stringify(this.config[key]));
    if (changed.length > 0) this.log.note('warn', `changes of ${changed.join(', ')} need a restart; the rest is taken over`);
    this.config = { ...next, listen: this.config.listen, workers: this.config.workers, log: this.config.log };
    this.version++;
    const running = this.readyStates();
    for (const { member } of running) this.sendSnapshot(member);
    await this.until(() => running.every((state) => this.isGone(state) || state.version >= this.version), SWAP_WAIT_MS);
    this.reloads++;
    this.log.note('info', 'reloaded', { version: this.version });
  }

  async stop(): Promise<void> {
    for (const { member } of this.states.values()) member.channel.send(TOPICS.drain, {});
    await this.fleet?.stop(this.config.timeouts.drain + 1_000);
    await this.observed?.close();
    await this.admin?.close();
    await this.store.close();
    await this.log.close();
  }

  private onOpen(member: Member): void {
    const state: WorkerState = { member, ready: undefined, version: 0, metrics: undefined };
    this.states.set(member.id, state);
    const { channel } = member;
    serveStore(channel, this.store);
    this.observed?.attach(channel);
    channel.on(TOPICS.ready, (body) => {
      state.ready = body as Ready;
      state.version = this.version;
      this.stir();
    });
    channel.on(TOPICS.swapped, (body) => {
      const { version, problem } = body as Swapped;
      state.version = version;
      if (problem !== undefined) this.log.note('error', `worker ${member.id} kept its config: ${problem}`);
      this.stir();
    });
    channel.on(TOPICS.metrics, (body) => {
      state.metrics = body as MetricSnapshot;
      this.stir();
    });
    channel.on(TOPICS.notable, (body) => {
      this.notable.unshift(body as DecisionEvent);
      if (this.notable.length > this.config.admin.decisions) this.notable.pop();
    });
    channel.on(TOPICS.failed, (body) => {
      if (this.readyStates().length === 0) this.fatal ??= (body as { problem: string }).problem;
      this.log.note('error', (body as { problem: string }).problem);
      this.stir();
    });
    channel.on(TOPICS.hello, () => this.sendSnapshot(member));
  }

  private readonly onGone = (member: Member, how: string, restartMs: number | undefined): void => {
    const state = this.states.get(member.id);
    this.states.delete(member.id);
    this.stir();
    if (restartMs === undefined) return;
    this.restarts++;
    if (state?.metrics !== undefined) this.bury(state.metrics);
    const fault = new Fault('WORKER_DIED', { id: member.id, pid: member.pid, how, ms: restartMs });
    this.log.note('error', fault.message, { code: fault.code, remedy: fault.remedy });
  };

  /** Keeps what dead workers counted; two are joined into one list, so that this does not grow with each death. */
  private bury(snapshot: MetricSnapshot): void {
    this.dead.push(retired(snapshot));
    if (this.dead.length > 64) this.dead.shift();
  }

  private sendSnapshot(member: Member): void {
    const message: SnapshotMessage<Config> = {
      version: this.version,
      config: this.config,
      hashKey: this.hashKey,
      workers: this.workerCount(),
    };
    member.channel.send(TOPICS.snapshot, message);
  }

  private workerCount(): number {
    return this.config.workers === 'auto' ? availableParallelism() : this.config.workers;
  }

  private readyStates(): WorkerState[] {
    return [...this.states.values()].filter((state) => state.ready !== undefined);
  }

  private isGone(state: WorkerState): boolean {
    return this.states.get(state.member.id) !== state;
  }

  private readonly note = (level: 'info' | 'warn' | 'error', text: string, fields?: Readonly<Record<string, unknown>>): void => {
    this.log.note(level, text, fields);
  };

  private stir(): void {
    this.wake?.();
  }

  private async until(done: () => boolean, ms = 60_000): Promise<void> {
    const limit = Date.now() + ms;
    while (!done() && Date.now() < limit) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 100);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  private async openAdmin(): Promise<string | undefined> {
    const { admin } = this.config;
    if (!admin.enabled) return undefined;
    const token = process.env[admin.tokenEnv];
    this.admin = createAdminServer(
      {
        notReady: () => (this.readyStates().length > 0 ? undefined : 'no worker listens yet'),
        metrics: () => this.collect(),
        decisions: () => this.notable,
        controls: () => this.controls(),
        reload: () => this.reload(),
      },
      { ...splitAddress(admin.listen), token, tokenEnv: admin.tokenEnv },
    );
    return this.admin.listen();
  }

  private async collect(): Promise<string> {
    const states = this.readyStates();
    const fresh = new Set<WorkerState>();
    const before = new Map(states.map((state) => [state, state.metrics]));
    for (const { member } of states) member.channel.send(TOPICS.askMetrics, {});
    await this.until(() => {
      for (const state of states) if (state.metrics !== before.get(state)) fresh.add(state);
      return fresh.size === states.length;
    }, METRICS_WAIT_MS);
    const known = states.flatMap((state) => (state.metrics === undefined ? [] : [state.metrics]));
    return sumOf([await this.metrics.snapshot(), ...known, ...this.dead]);
  }

  private controls(): Readonly<Record<string, unknown>> {
    const { config } = this;
    return {
      mode: config.mode,
      version: this.version,
      sites: config.sites.map((site) => ({ name: site.name, hosts: site.hosts, mode: site.mode ?? config.mode })),
      workers: [...this.states.values()].map(({ member, ready, version }) => ({
        id: member.id, pid: member.pid, ready: ready !== undefined, version,
      })),
      limits: this.store.stats(),
      restarts: this.restarts,
    };
  }
}

function entryScript(): string {
  const here = import.meta.url;
  return fileURLToPath(new URL(here.endsWith('.ts') ? './worker-entry.ts' : './worker-entry.js', here));
}
