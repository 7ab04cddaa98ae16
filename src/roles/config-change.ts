/** What a running gate can take over from a new config, and what must wait for a restart. Pure. */
import type { Config } from '../config/schema.js';

export type Mode = Config['mode'];

type KeyPath = readonly [section: keyof Config, key?: string];

/** Sockets, the log's queue and the tables the workers share are opened once. */
const FIXED: readonly KeyPath[] = [
  ['workers'],
  ['workerHeap'],
  ['admin'],
  ['log'],
  ['metrics'],
  ['limits', 'keysMax'],
  ['reputation', 'observed'],
  ['reputation', 'stateDir'],
  ['identity', 'hashKeyEnv'],
  ['kafka'],
  ['bans', 'stateFile'],
  ['correlator', 'enabled'],
];

/** `waiting` names the changed keys that need a restart; the config answered has them as they run now. */
export function carryOver(running: Config, next: Config): { config: Config; waiting: string[] } {
  const waiting = FIXED.filter((path) => textOf(running, path) !== textOf(next, path)).map((path) =>
    path.join('.'),
  );
  // Certificates are read again and may lie elsewhere by now.
  const sameSockets = socketsOf(running) === socketsOf(next);
  if (!sameSockets) waiting.unshift('listen');
  const { workers, workerHeap, admin, log, metrics, kafka } = running;
  const { observed, stateDir } = running.reputation;
  const config: Config = {
    ...next,
    listen: sameSockets ? next.listen : running.listen,
    workers,
    workerHeap,
    admin,
    log,
    metrics,
    kafka,
    bans: keptIn(next.bans, running.bans.stateFile),
    correlator: { ...next.correlator, enabled: running.correlator.enabled },
    limits: { ...next.limits, keysMax: running.limits.keysMax },
    reputation: { ...next.reputation, observed, ...(stateDir === undefined ? {} : { stateDir }) },
    identity: { ...next.identity, hashKeyEnv: running.identity.hashKeyEnv },
  };
  return { config, waiting };
}

function keptIn(bans: Config['bans'], stateFile: string | undefined): Config['bans'] {
  const kept = { ...bans };
  if (stateFile === undefined) delete kept.stateFile;
  else kept.stateFile = stateFile;
  return kept;
}

function socketsOf({ listen }: Config): string {
  return JSON.stringify(listen.map(({ address, proxyProtocol, tls }) => [address, proxyProtocol, !tls]));
}

/** Of one site, or of all that have none of their own. Undefined where there is no such site. */
export function withMode(config: Config, mode: Mode, site: string | undefined): Config | undefined {
  if (site === undefined) return { ...config, mode };
  if (!config.sites.some(({ name }) => name === site)) return undefined;
  return { ...config, sites: config.sites.map((each) => (each.name === site ? { ...each, mode } : each)) };
}

/**
 * Listeners that asked for any port get those they have been given (`urls`, in the order of the config): a
 * worker that replaces the last one must come up where clients look for it.
 */
export function pinPorts(config: Config, urls: readonly string[]): Config {
  const listen = config.listen.map((listener, index) => {
    const url = urls[index];
    if (url === undefined || !listener.address.endsWith(':0')) return listener;
    return { ...listener, address: url.replace(/^https?:\/\//, '') };
  });
  return { ...config, listen };
}

function textOf(config: Config, [section, key]: KeyPath): string {
  const value = config[section] as unknown;
  return JSON.stringify(key === undefined ? value : (value as Record<string, unknown>)[key]) ?? '';
}
