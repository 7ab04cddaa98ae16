/**
 * Events that the detectors never saw, as a warning: whoever's events come late or cannot be read is blind
 * to attacks without knowing it. At most one line a minute, and none for a few.
 */
import type { Reject } from '../bus/bus-contract.js';

export type UnusedWatch = Readonly<{
  /** `node`: whose event it was; `newestNode`: whose event is the newest, by which the other one is late. */
  late(node: string, newestNode: string): void;
  rejected(cause: Reject): void;
}>;

export type UnusedDeps = Readonly<{ nowMs: () => number; warn: (text: string) => void }>;

const EVERY_MS = 60_000;
/** In a minute. */
const WORTH_TELLING = 100;
const NODES_MAX = 100;
const NODES_SHOWN = 3;

type Counts = Map<string, number>;

export function createUnusedWatch({ nowMs, warn }: UnusedDeps): UnusedWatch {
  let sinceMs = -Infinity;
  let toldMs = -Infinity;
  let total = 0;
  let causes: Counts = new Map();
  let nodes: Counts = new Map();
  let aheadOf: Counts = new Map();

  const restart = (now: number): void => {
    sinceMs = now;
    total = 0;
    causes = new Map();
    nodes = new Map();
    aheadOf = new Map();
  };
  const count = (cause: string, late?: readonly [node: string, newestNode: string]): void => {
    const now = nowMs();
    // A minute with less is nothing to tell.
    if (now - sinceMs >= EVERY_MS && total < WORTH_TELLING) restart(now);
    total++;
    add(causes, cause);
    if (late !== undefined) {
      add(nodes, late[0]);
      add(aheadOf, late[1]);
    }
    if (total < WORTH_TELLING || now - toldMs < EVERY_MS) return;
    toldMs = now;
    const seconds = Math.max(1, Math.ceil((now - sinceMs) / 1_000));
    const whose = nodes.size === 0 ? '' : `; late ones of ${shown(nodes)}, the newest is of ${shown(aheadOf)}`;
    warn(`${total} events went unused within ${seconds} s: ${shown(causes)}${whose}`);
    restart(now);
  };
  return {
    late: (node, newestNode) => count('late', [node, newestNode]),
    rejected(cause) {
      // Events of another kind are no loss.
      if (cause !== 'other') count(cause);
    },
  };
}

function add(counts: Counts, name: string): void {
  const known = counts.get(name);
  if (known !== undefined || counts.size < NODES_MAX) counts.set(name, (known ?? 0) + 1);
}

function shown(counts: Counts): string {
  const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, NODES_SHOWN);
  const more = counts.size > most.length ? ' and others' : '';
  return `${most.map(([name, count]) => `${name} (${count})`).join(', ')}${more}`;
}
