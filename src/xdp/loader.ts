/**
 * The loader binary of `bpf/` as the agent uses it: one short run for each errand, its answer read with
 * suspicion, its exit code turned into a Fault that says what to do. `bpf/README.md` has the protocol.
 */
import { formatNetwork, parseNetwork } from '../core/address.js';
import { Fault } from '../core/errors.js';
import {
  readAnswer,
  readCommit,
  readList,
  readStatus,
  type KernelSettings,
  type KernelStatus,
  type ListedEntry,
} from './answers.js';
import { FOREVER_MS } from './ban-lines.js';
import { runLoader, type Answered } from './child.js';
import type { KernelEntry } from './sync.js';

export type Handover = Readonly<{
  generation: number;
  bans: readonly KernelEntry[];
  allowed: readonly string[];
}>;

/**
 * What a commit put into force; `leftOut` found no room, `refused` the loader would not take, of which
 * `named` has the first few, with the reason.
 */
export type Committed = Readonly<{
  bans: number;
  allowed: number;
  leftOut: number;
  refused: number;
  named: readonly string[];
}>;

export type Loader = Readonly<{
  /** Undefined where nothing is attached. Rejects with XDP_*, as all here do. */
  status(): Promise<KernelStatus | undefined>;
  /**
   * Attaches the filter if it is not there, gives it the settings it should have, and answers how it stands;
   * what it had to do is told. A filter that works is never taken off. Rejects with XDP_OTHER_MODE where it
   * is attached in another mode.
   */
  ensure(): Promise<KernelStatus>;
  /** What the lists hold in force. */
  list(): Promise<readonly ListedEntry[]>;
  /** Puts this installation's program in the place of the attached one, without a gap. */
  upgrade(): Promise<void>;
  /** Puts whole lists in the place of those before; what goes wrong before the end changes nothing. */
  sync(lists: Handover): Promise<Committed>;
  /** Takes the filter and all it has away; false where there was none. */
  detach(): Promise<boolean>;
  /** Prints one JSON line for each source that crosses a cap, until it is ended. */
  eventsCommand: readonly [file: string, ...args: string[]];
}>;

export type LoaderOptions = Readonly<{
  file: string;
  timeoutMs: number;
  interface: string;
  pin: string;
  mode: 'driver' | 'generic';
  /** Room for so many bans of each kind; of use at attach only. */
  entries: number;
  settings: KernelSettings;
  /** What `ensure` found and changed, for the log. */
  tell?: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}>;

/** Exit codes of the loader. */
const EXIT = { done: 0, notAttached: 3, busy: 4, rights: 6 } as const;
/** Lines of one write; a line is about 80 bytes. */
const LINES_A_PIECE = 500;

type Run = (command: string, args?: readonly string[], input?: Iterable<string>) => Promise<Answered>;

export function createLoader(options: LoaderOptions): Loader {
  const place = ['--iface', options.interface, '--pin', options.pin];
  const run: Run = (command, args = [], input) =>
    runLoader({
      file: options.file,
      args: [command, ...place, ...args],
      timeoutMs: options.timeoutMs,
      ...(input === undefined ? {} : { input }),
    });
  const status = async (): Promise<KernelStatus | undefined> => {
    const answer = await run('status');
    return answer.code === EXIT.notAttached ? undefined : readStatus(orFault('look at the filter', answer));
  };
  const detach = async (): Promise<boolean> => {
    const answer = await run('detach');
    if (answer.code !== EXIT.notAttached) orFault('take the filter off', answer);
    return answer.code !== EXIT.notAttached;
  };
  return {
    status,
    detach,
    list: async () => readList(orFault('read the lists', await run('list'))),
    ensure: () => ensure(options, { run, status }),
    upgrade: async () => void orFault('upgrade the filter', await run('upgrade')),
    sync: async (lists) => readCommit(await run('sync', [], linesOf(lists)), lists.generation),
    eventsCommand: [options.file, 'events', ...place],
  };
}

type Errands = Pick<Loader, 'status'> & Readonly<{ run: Run }>;

async function ensure(options: LoaderOptions, errands: Errands): Promise<KernelStatus> {
  const { run, status } = errands;
  const { interface: iface, mode: wanted, settings, tell } = options;
  let found = await status();
  if (found?.attached === false) {
    // It went away or was renamed; what has the name now has no filter.
    const { renamedTo } = found;
    tell?.(`${iface} is not the interface that the filter is on; it is attached anew`, {
      interface: iface,
      ...(renamedTo === undefined ? {} : { renamedTo }),
    });
  }
  if (found?.attached !== true) {
    await attach(options, errands);
    found = await status();
  }
  if (found?.attached !== true) {
    throw new Fault('XDP_LOADER_ANSWER', { what: 'attach', why: 'nothing is attached afterwards' });
  }
  if (found.mode !== wanted) {
    throw new Fault('XDP_OTHER_MODE', { interface: iface, found: found.mode, wanted });
  }
  const off = settingsOff(found.settings, settings);
  if (off.length > 0) {
    tell?.('the settings of the filter were not those of the config; they are set', { settings: off });
    orFault('change the settings of the filter', await run('config', argumentsOf(settings)));
    found = (await status()) ?? found;
  }
  return found;
}

/** Resolves where a filter is attached, by us or by somebody else; the loader clears stale pins away. */
async function attach(options: LoaderOptions, { run, status }: Errands): Promise<void> {
  const sizes = ['--mode', options.mode, '--bans', String(options.entries)];
  const answer = await run('attach', [...sizes, ...argumentsOf(options.settings)]);
  if (answer.code === EXIT.busy && (await status())?.attached === true) return;
  orFault('attach the filter', answer);
}

function argumentsOf(settings: KernelSettings): string[] {
  const { dryRun, management } = settings;
  return [
    ...['--packet-cap', String(settings.packetsPerSecond)],
    ...['--packet-window-ms', String(settings.packetWindowMs)],
    ...['--syn-cap', String(settings.synPerSecond), '--syn-window-ms', String(settings.synWindowMs)],
    ...['--dry-run', dryRun ? 'on' : 'off', '--deep-vlan', settings.deepVlan],
    ...['--events-per-second', String(settings.eventsPerSecond)],
    ...['--event-quiet-s', String(settings.eventQuietSeconds)],
    ...(management.length === 0 ? ['none'] : management).flatMap((net) => ['--management', net]),
  ];
}

/** Which differ, as found and as wanted. */
function settingsOff(found: KernelSettings, wanted: KernelSettings): string[] {
  const texts = ({ management, ...others }: KernelSettings): Record<string, string> => ({
    ...Object.fromEntries(Object.entries(others).map(([key, value]) => [key, String(value)])),
    management: [...new Set(management.map(canonical).sort())].join(' '),
  });
  const before = texts(found);
  return Object.entries(texts(wanted))
    .filter(([key, value]) => before[key] !== value)
    .map(([key, value]) => `${key}: ${before[key] ?? ''} → ${value}`);
}

function canonical(net: string): string {
  const network = parseNetwork(net);
  return network === undefined ? net : formatNetwork(network);
}

/** The lines of one whole list, in pieces. */
function* linesOf({ generation, bans, allowed }: Handover): Generator<string> {
  yield `{"op":"begin","generation":${generation}}\n`;
  let lines: string[] = [];
  for (const net of allowed) lines.push(`{"op":"allow","net":"${net}"}\n`);
  for (const { net, untilMs, severity } of bans) {
    lines.push(
      `{"op":"ban","net":"${net}","until":${Math.min(FOREVER_MS, Math.trunc(untilMs))},"severity":${severity}}\n`,
    );
    if (lines.length < LINES_A_PIECE) continue;
    yield lines.join('');
    lines = [];
  }
  yield `${lines.join('')}{"op":"commit"}\n`;
}

/** The answer of a run that ended well; else the Fault for it. */
function orFault(what: string, answer: Answered): Answered {
  if (answer.code === EXIT.done) return answer;
  const { message, remedy } = readAnswer(answer);
  if (answer.code === EXIT.rights) throw new Fault('XDP_RIGHTS', { what, why: message });
  throw new Fault('XDP_LOADER_FAILED', { what, why: message, remedy });
}
