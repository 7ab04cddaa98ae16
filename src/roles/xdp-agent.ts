/**
 * The kernel companion's process: attaches the filter, keeps its lists in step with the bans, tells
 * Prometheus and the bus what the kernel sees. The filter outlives it.
 */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Registry } from 'prom-client';
import type { Config } from '../config/schema.js';
import { systemClock } from '../core/clock.js';
import { Fault } from '../core/errors.js';
import type { KernelEvent } from '../core/kernel-event.js';
import { createAgent, type Agent, type AgentLog } from '../xdp/agent.js';
import { FIXED_SETTINGS } from '../xdp/answers.js';
import type { XdpConfig } from '../xdp/config.js';
import { createEventReader, type Crossing, type EventReader } from '../xdp/events.js';
import { createLoader, type Loader } from '../xdp/loader.js';
import { createXdpMetrics } from '../xdp/metrics.js';
import { openBanSource, type XdpBans } from './xdp-bans.js';
import { createAgentLock } from './xdp-agent-lock.js';
import { createGuardedReader } from './xdp-guarded.js';
import { LOADER_FILE } from './xdp-loader-file.js';
import { createMetricsServer, type MetricsServer } from './xdp-metrics-server.js';
import { createKernelOutlet, type KernelOutlet } from './xdp-outlet.js';

export type XdpStarted = Readonly<{
  interface: string;
  mode: 'driver' | 'generic';
  dryRun: boolean;
  metrics: string;
}>;

export type XdpAgent = Readonly<{
  /** Throws a Fault where the filter cannot be attached, or is attached in another mode. */
  start(): Promise<XdpStarted>;
  /** A round now, besides those by the clock. */
  round(): Promise<boolean>;
  /** The filter stays in place unless `detach`. */
  stop(how: Readonly<{ detach: boolean }>): Promise<void>;
}>;

/** Throws XDP_NOT_CONFIGURED. */
export function xdpOf(config: Config): XdpConfig {
  if (config.xdp === undefined) throw new Fault('XDP_NOT_CONFIGURED');
  return config.xdp;
}

/** What the commands use, too. Throws XDP_NOT_CONFIGURED. */
export function loaderOf(config: Config, log?: AgentLog): Loader {
  const xdp = xdpOf(config);
  return createLoader({
    file: xdp.loader === undefined ? LOADER_FILE : resolve(config.baseDir, xdp.loader),
    timeoutMs: xdp.timeout,
    interface: xdp.interface,
    pin: xdp.pin,
    mode: xdp.mode,
    entries: xdp.entries,
    settings: {
      dryRun: xdp.dryRun || config.mode === 'observe',
      packetsPerSecond: xdp.caps.packetsPerSecond,
      synPerSecond: xdp.caps.synPerSecond,
      deepVlan: xdp.deepVlan,
      management: xdp.management,
      ...FIXED_SETTINGS,
    },
    tell: (message, fields) => log?.('warn', message, fields),
  });
}

type Parts = Readonly<{
  source: XdpBans;
  agent: Agent;
  outlet: KernelOutlet;
  events: EventReader;
  server: MetricsServer;
}>;

export function createXdpAgent(config: Config, log: AgentLog): XdpAgent {
  const xdp = xdpOf(config);
  const loader = loaderOf(config, log);
  const lock = createAgentLock(xdp.interface);
  let parts: Parts | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isStopping = false;

  let linkId: number | undefined;

  const round = async (): Promise<boolean> => {
    const isDone = (await parts?.agent.round()) ?? false;
    const now = parts?.agent.stats().status?.linkId;
    if (linkId !== undefined && now !== linkId) {
      log('warn', 'the filter was off the interface and is attached again', { interface: xdp.interface });
      parts?.events.renew();
    }
    linkId = now;
    return isDone;
  };
  const next = (): void => {
    if (isStopping) return;
    timer = setTimeout(() => void round().finally(next), xdp.every);
  };
  return {
    async start() {
      await lock.take();
      const wasAttached = (await loader.status())?.attached === true;
      parts = await openParts(config, { loader, log });
      const status = await loader.ensure();
      // The program of this version, in the place of what an earlier one left there.
      if (wasAttached) await loader.upgrade();
      const metrics = await parts.server.listen();
      parts.events.start();
      await round();
      next();
      return { interface: xdp.interface, mode: status.mode, dryRun: status.settings.dryRun, metrics };
    },
    round,
    async stop({ detach }) {
      isStopping = true;
      clearTimeout(timer);
      await parts?.events.close();
      await parts?.server.close();
      await parts?.outlet.close();
      // A round under way would attach it again.
      await parts?.agent.idle();
      await parts?.source.close();
      lock.release();
      if (detach) await loader.detach();
      log(
        'warn',
        detach ? 'the filter was taken off' : 'the filter stays in place; `tidegate xdp off` takes it off',
        {
          interface: xdp.interface,
          mode: xdp.mode,
        },
      );
    },
  };
}

type Given = Readonly<{ loader: Loader; log: AgentLog }>;

async function openParts(config: Config, { loader, log }: Given): Promise<Parts> {
  const xdp = xdpOf(config);
  const source = await openBanSource(config);
  const agent = createAgent(
    {
      widest: config.reputation.widest,
      ipv6Prefix: config.reputation.ipv6Prefix,
      entriesMax: xdp.entries,
    },
    {
      loader,
      readBans: source.read,
      readGuarded: createGuardedReader(config, { log }),
      clock: systemClock,
      steadyMs: () => performance.now(),
      log,
    },
  );
  const outlet = await createKernelOutlet(config, log);
  const about = { node: hostname(), interface: xdp.interface, mode: xdp.mode };
  const events = createEventReader({
    command: loader.eventsCommand,
    take: (crossing) => outlet.tell(kernelEventOf(crossing, about)),
  });
  const registry: Registry = createXdpMetrics({
    prefix: config.metrics.prefix,
    interface: xdp.interface,
    agent,
    events: events.stats,
    nowMs: systemClock.nowMs,
  });
  return { source, agent, outlet, events, server: createMetricsServer(xdp.listen, registry) };
}

function kernelEventOf(
  { timeMs, source, what, cap, dropped }: Crossing,
  about: Pick<KernelEvent, 'node' | 'interface' | 'mode'>,
): KernelEvent {
  const time = new Date(timeMs).toISOString();
  return { v: 1, kind: 'kernel', time, ...about, source, what, cap, dropped };
}
