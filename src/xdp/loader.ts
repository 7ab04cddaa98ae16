/**
 * The loader binary of `bpf/` as the agent uses it: one short run for each errand, its answer read with
 * suspicion, its exit code turned into a Fault that says what to do. `bpf/README.md` has the protocol.
 */
import { formatNetwork, parseNetwork } from '../core/address.js';
import { Fault } from '../core/errors.js';
import { readAnswer, readCommit, readStatus, type KernelSettings, type KernelStatus } from './answers.js';
import { FOREVER_MS } from './ban-lines.js';
import { runLoader, type Answered } from './child.js';
import type { KernelEntry } from './sync.js';

export type Handover = Readonly<{
  generation: number;
  bans: readonly KernelEntry[];
  allowed: readonly string[];
}>;

/** What a commit put into force; `leftOut` found no room, `refused` the loader would not take. */
export type Committed = Readonly<{ bans: number; allowed: number; leftOut: number; refused: number }>;

export type Loader = Readonly<{
  /** Undefined where nothing is attached. Rejects with XDP_*, as all here do. */
  status(): Promise<KernelStatus | undefined>;
  /**
   * Attaches the filter if it is not there, gives it the settings it should have, and answers how it stands.
   * Rejects with XDP_OTHER_MODE where it is attached in another mode.
   */
  ensure(): Promise<KernelStatus>;
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
}>;

/** Exit codes of the loader. */
const EXIT = { done: 0, notAttached: 3, busy: 4, rights: 6 } as const;
const WINDOW_MS = 1000;
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
    ensure: () => ensure(options, { run, status, detach }),
    upgrade: async () => void orFault('upgrade the filter', await run('upgrade')),
    sync: async (lists) => readCommit(await run('sync', [], linesOf(lists)), lists.generation),
    eventsCommand: [options.file, 'events', ...place],
  };
}

type Errands = Pick<Loader, 'status' | 'detach'> & Readonly<{ run: Run }>;

async function ensure(options: LoaderOptions, errands: Errands): Promise<KernelStatus> {
  const { run, status, detach } = errands;
  const settings = settingsOf(options.settings);
  let found = await status();
  // An interface that went away took the filter along; its pins are left over.
  if (found?.attached === false) await detach();
  if (found?.attached !== true) {
    const attach = ['--mode', options.mode, '--bans', String(options.entries), ...settings];
    let answer = await run('attach', attach);
    // Pins that a loader left half made are ours to clear away; another program on the interface is not.
    if (answer.code === EXIT.busy && (await detach())) answer = await run('attach', attach);
    orFault('attach the filter', answer);
    found = await status();
  }
  if (found === undefined) {
    throw new Fault('XDP_LOADER_ANSWER', { what: 'attach', why: 'nothing is attached afterwards' });
  }
  if (found.mode !== options.mode) {
    const { interface: iface, mode: wanted } = options;
    throw new Fault('XDP_OTHER_MODE', { interface: iface, found: found.mode, wanted });
  }
  if (!sameSettings(found.settings, options.settings)) {
    orFault('change the settings of the filter', await run('config', settings));
    found = (await status()) ?? found;
  }
  return found;
}

function settingsOf({ dryRun, packetsPerSecond, synPerSecond, management }: KernelSettings): string[] {
  const window = String(WINDOW_MS);
  return [
    ...['--packet-cap', String(packetsPerSecond), '--packet-window-ms', window],
    ...['--syn-cap', String(synPerSecond), '--syn-window-ms', window],
    ...['--dry-run', dryRun ? 'on' : 'off'],
    ...(management.length === 0 ? ['none'] : management).flatMap((net) => ['--management', net]),
  ];
}

function sameSettings(one: KernelSettings, other: KernelSettings): boolean {
  const keyOf = ({ dryRun, packetsPerSecond, synPerSecond, management }: KernelSettings): string =>
    JSON.stringify([dryRun, packetsPerSecond, synPerSecond, ...new Set(management.map(canonical).sort())]);
  return keyOf(one) === keyOf(other);
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
