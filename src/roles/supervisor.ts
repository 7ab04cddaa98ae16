/**
 * The supervisor: loads the config, holds what workers share (counters, observed scores), forks and watches
 * them, reloads on SIGHUP, drains on SIGTERM, and runs the admin listener. It never touches a request.
 */
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { createAdminServer, type AdminServer } from '../admin/server.js';
import { createFleet, type Fleet, type Member } from '../cluster/fleet.js';
import { createHeartbeat } from '../cluster/heartbeat.js';
import { TOPICS, type Notables, type SnapshotMessage } from '../cluster/messages.js';
import { createRetired, gaugeIn } from '../cluster/retired.js';
import { createRoster, type WorkerState } from '../cluster/roster.js';
import { loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { systemClock } from '../core/clock.js';
import { describeFault, Fault } from '../core/errors.js';
import type { DecisionEvent } from '../core/event.js';
import { randomHashKey } from '../identity/index.js';
import { readCredentials } from '../proxy/credentials.js';
import { splitAddress } from '../proxy/gate.js';
import { createRuleCache } from '../rules/index.js';
import { createEventLog } from '../telemetry/log.js';
import { carryOver, pinPorts, withMode, type Mode } from './config-change.js';
import { buildEngines } from './engines.js';
import { createShared, type Shared } from './shared.js';
import { adminToken } from './start-checks.js';
import { adminState, type Phase } from './supervisor-view.js';
import { WORKER_SCRIPT } from './worker-script.js';
import { followWorker } from './worker-line.js';

const START_WAIT_MS = 60_000;
const SWAP_WAIT_MS = 30_000;
const METRICS_EVERY_MS = 5_000;
const DRAIN_SLACK_MS = 1_000;
/** Workers that die this often before the gate ever was ready will not get better. */
const START_DEATHS_MAX = 3;

export type Started = Readonly<{ listen: string[]; admin: string | undefined; workers: number }>;

export type Supervisor = {
  /**
   * Resolves when every worker listens. Throws a Fault where the gate cannot start; then nothing stays open.
   */
  start(): Promise<Started>;
  /** Takes over the config file as it is now. Rejects with a Fault; then the running config stays. */
  reload(): Promise<void>;
  /** Lets requests in flight end, at most `timeouts.drain` long. */
  stop(): Promise<void>;
  /** Ends the workers now. */
  kill(): void;
};

/** `adjust` changes the config after each loading, before anything is built from it. */
export function createSupervisor(
  file: string,
  adjust: (config: Config) => Config = (config) => config,
): Supervisor {
  return new Supervision(async () => adjust(await loadConfig(file)));
}

class Supervision implements Supervisor {
  private config!: Config;
  private credentials: ReturnType<typeof readCredentials> = [];
  private version = 1;
  private hashKey = randomHashKey();
  private readonly node = randomHashKey();
  private readonly roster = createRoster();
  private readonly dead = createRetired();
  private readonly ruleCache = createRuleCache();
  private readonly notable: DecisionEvent[] = [];
  private readonly detach = new Map<number, () => void>();
  private readonly heartbeat = createHeartbeat({
    timeoutMs: () => this.config.timeouts.worker,
    onHung: (member) => this.onHung(member),
  });
  private shared: Shared | undefined;
  private log: ReturnType<typeof createEventLog> | undefined;
  private fleet: Fleet | undefined;
  private admin: AdminServer | undefined;
  private asking: NodeJS.Timeout | undefined;
  private phase: Phase = 'starting';
  private fatal: string | undefined;
  /** Where the first workers listen; `pinned` once the ports must be asked for by number. */
  private addresses: readonly string[] = [];
  private pinned = false;
  private readonly counts = { restarts: 0, hung: 0, reloads: 0, refusedReloads: 0, lostInFlight: 0 };
  private lastChange: Promise<void> = Promise.resolve();
  private nextReload: Promise<void> | undefined;

  constructor(private readonly load: () => Promise<Config>) {}

  async start(): Promise<Started> {
    try {
      return await this.open();
    } catch (error) {
      this.fleet?.kill();
      await this.stop();
      throw error;
    }
  }

  private async open(): Promise<Started> {
    const config = await this.load();
    this.config = config;
    this.credentials = readCredentials(config.listen, config.baseDir);
    this.hashKey = process.env[config.identity.hashKeyEnv] ?? this.hashKey;
    const token = adminToken(config, process.env);
    const shared = createShared(() => this.config, this.note);
    this.shared = shared;
    await this.prove(config);
    const file = config.log.file === undefined ? undefined : path.resolve(config.baseDir, config.log.file);
    this.log = createEventLog(config.log, { file, nowMs: systemClock.nowMs });
    await shared.start();
    const admin = await this.openAdmin(token);
    const workers = this.workerCount();
    const hooks = { onOpen: this.onOpen, onGone: this.onGone };
    this.fleet = createFleet(WORKER_SCRIPT, this.config.workerHeap, hooks);
    this.fleet.start(workers);
    this.heartbeat.start();
    const settled = (): boolean => this.fatal !== undefined || this.roster.ready().length >= workers;
    const inTime = await this.roster.until(settled, START_WAIT_MS);
    if (!inTime) this.fatal ??= `not every worker listens after ${START_WAIT_MS / 1_000} s`;
    if (this.fatal !== undefined) throw new Fault('START_FAILED', { why: this.fatal });
    this.phase = 'running';
    this.asking = setInterval(() => this.askMetrics(), METRICS_EVERY_MS).unref();
    return { listen: [...this.addresses], admin, workers };
  }

  /** Builds everything once, as a worker will: a config that passes here can be carried out. */
  private async prove(config: Config): Promise<void> {
    const engines = await buildEngines(config, {
      store: this.shared!.store,
      channel: undefined,
      clock: systemClock,
      log: () => undefined,
      hashKey: this.hashKey,
      ruleCache: this.ruleCache,
    });
    await engines.close();
  }

  reload(): Promise<void> {
    // Reloads asked for while one waits its turn are that one: it reads the file when it begins.
    this.nextReload ??= this.inTurn(async () => {
      this.nextReload = undefined;
      await this.takeOver();
    });
    return this.nextReload;
  }

  private inTurn(change: () => Promise<void>): Promise<void> {
    const turn = this.lastChange.catch(() => undefined).then(change);
    this.lastChange = turn;
    return turn;
  }

  private async takeOver(): Promise<void> {
    try {
      const next = await this.load();
      await this.prove(next);
      const { config, waiting } = carryOver(this.config, next);
      if (waiting.length > 0) {
        this.note('warn', `changes of ${waiting.join(', ')} need a restart; the rest is taken over`);
      }
      await this.change(config, readCredentials(config.listen, config.baseDir));
    } catch (error) {
      this.counts.refusedReloads++;
      this.note('error', `reload refused, the running config stays: ${describeFault(error)}`);
      throw error;
    }
    this.counts.reloads++;
    this.log?.reopen();
    this.note('info', 'reloaded', { version: this.version });
  }

  private setMode(mode: Mode, site: string | undefined): Promise<void> {
    return this.inTurn(async () => {
      const config = withMode(this.config, mode, site);
      if (config === undefined) return;
      await this.change(config);
      this.note('warn', `mode set to ${mode} until the next reload`, {
        site: site ?? 'all',
        version: this.version,
      });
    });
  }

  /** All workers take the config over, or all go back to the one before. */
  private async change(config: Config, credentials = this.credentials): Promise<void> {
    if (this.phase !== 'running') throw new Fault('RELOAD_REFUSED', { why: `the gate is ${this.phase}` });
    const before = [this.config, this.credentials] as const;
    const problem = await this.handOut(config, credentials);
    if (problem === undefined) return;
    await this.handOut(...before);
    throw new Fault('RELOAD_REFUSED', { why: problem });
  }

  private async handOut(config: Config, credentials = this.credentials): Promise<string | undefined> {
    [this.config, this.credentials] = [config, credentials];
    const version = ++this.version;
    // One after the other: building a config costs time, and the others go on serving meanwhile.
    for (const state of this.roster.all().filter(({ greeted }) => greeted)) {
      if (!this.roster.has(state) || state.version >= version) continue;
      this.sendSnapshot(state);
      const problem = await this.roster.takesOver(state, version, SWAP_WAIT_MS);
      if (problem !== undefined) return problem;
    }
    await this.shared?.follow();
    return undefined;
  }

  async stop(): Promise<void> {
    this.phase = 'stopping';
    clearInterval(this.asking);
    this.heartbeat.stop();
    for (const { member } of this.roster.all()) member.channel.send(TOPICS.drain, {});
    if (this.fleet !== undefined) await this.fleet.stop(this.config.timeouts.drain + DRAIN_SLACK_MS);
    await this.admin?.close();
    await this.shared?.close();
    await this.log?.close();
  }

  kill(): void {
    this.fleet?.kill();
  }

  private readonly onOpen = (member: Member): void => {
    const state = this.roster.add(member);
    this.detach.set(member.id, this.shared!.attach(member.channel));
    followWorker(state, {
      alive: this.heartbeat.watch(member),
      stir: this.roster.stir,
      hello: () => this.sendSnapshot(state),
      listening: ({ listen }) => {
        if (this.addresses.length === 0) this.addresses = listen;
      },
      notable: (events) => this.keep(events),
      failed: (problem) => {
        if (this.phase === 'starting') this.fatal ??= problem;
        this.note('error', problem, { worker: member.id });
      },
    });
  };

  private readonly onGone = (member: Member, how: string, restartMs: number | undefined): void => {
    const state = this.roster.remove(member.id);
    this.heartbeat.forget(member);
    this.detach.get(member.id)?.();
    this.detach.delete(member.id);
    this.roster.stir();
    if (restartMs === undefined) return;
    this.counts.restarts++;
    if (this.phase === 'starting' && this.counts.restarts >= START_DEATHS_MAX)
      this.fatal ??= `workers end with ${how}`;
    if (state?.metrics !== undefined) {
      this.dead.add(state.metrics);
      this.counts.lostInFlight += gaugeIn(state.metrics, `${this.config.metrics.prefix}requests_in_flight`);
    }
    const fault = new Fault('WORKER_DIED', { id: member.id, pid: member.pid, how, ms: restartMs });
    this.note('error', fault.message, { code: fault.code, remedy: fault.remedy });
  };

  private onHung(member: Member): void {
    this.counts.hung++;
    const { id, pid } = member;
    const fault = new Fault('WORKER_HUNG', { id, pid, ms: this.config.timeouts.worker });
    this.note('error', fault.message, { code: fault.code, remedy: fault.remedy });
    this.fleet?.end(member);
  }

  private keep(events: Notables): void {
    this.notable.unshift(...[...events].reverse());
    this.notable.length = Math.min(this.notable.length, this.config.admin.decisions);
  }

  private sendSnapshot(state: WorkerState): void {
    // While another worker holds the first port, the same words lead to the same port.
    const alone = this.roster.all().every((other) => other === state || !other.greeted);
    if (this.phase !== 'starting' && !state.greeted && alone) this.pinned = true;
    const message: SnapshotMessage<Config> = {
      version: this.version,
      config: this.pinned ? pinPorts(this.config, this.addresses) : this.config,
      hashKey: this.hashKey,
      workers: this.workerCount(),
      node: this.node,
      place: state.member.place,
      credentials: this.credentials.map((pair) => pair ?? null),
    };
    state.member.channel.send(TOPICS.snapshot, message);
  }

  private askMetrics(): void {
    for (const { member } of this.roster.ready()) member.channel.send(TOPICS.askMetrics, {});
  }

  private workerCount(): number {
    return this.config.workers === 'auto' ? availableParallelism() : this.config.workers;
  }

  private readonly note = (
    level: 'info' | 'warn' | 'error',
    text: string,
    fields?: Readonly<Record<string, unknown>>,
  ): void => {
    this.log?.note(level, text, fields);
  };

  private async openAdmin(token: string | undefined): Promise<string | undefined> {
    const { admin } = this.config;
    if (!admin.enabled) return undefined;
    const state = adminState({
      config: () => this.config,
      version: () => this.version,
      phase: () => this.phase,
      wanted: () => this.workerCount(),
      roster: this.roster,
      dead: this.dead,
      notable: this.notable,
      counts: this.counts,
      store: this.shared!.store,
      correlator: () => this.shared!.correlator.view(),
      bans: this.shared!.bans,
      hashKey: () => this.hashKey,
      note: this.note,
      askMetrics: () => this.askMetrics(),
      reload: () => this.reload(),
      setMode: (mode, site) => this.setMode(mode, site),
    });
    const { tokenEnv, hosts } = admin;
    const server = createAdminServer(state, { ...splitAddress(admin.listen), hosts, token, tokenEnv });
    const url = await server.listen();
    this.admin = server;
    return url;
  }
}
