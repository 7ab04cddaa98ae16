/** What the loader prints, read with suspicion: it is another program, perhaps of another version. */
import { z } from 'zod';
import { Fault } from '../core/errors.js';
import type { Answered } from './child.js';

export type KernelSettings = Readonly<{
  dryRun: boolean;
  packetsPerSecond: number;
  synPerSecond: number;
  /** What becomes of frames with more than four VLAN tags. */
  deepVlan: 'drop' | 'pass';
  management: readonly string[];
  packetWindowMs: number;
  synWindowMs: number;
  /** Of each CPU; then so many seconds none of the same source. */
  eventsPerSecond: number;
  eventQuietSeconds: number;
}>;

/** Those that no config changes: caps are per second, events as the loader has them by itself. */
export const FIXED_SETTINGS = {
  packetWindowMs: 1000,
  synWindowMs: 1000,
  eventsPerSecond: 100,
  eventQuietSeconds: 10,
} as const satisfies Partial<KernelSettings>;

export type KernelCounter = Readonly<{ group: string; name: string; packets: number; bytes: number }>;

/** The filter as it stands in the kernel. */
export type KernelStatus = Readonly<{
  /** False where the interface went away under it, or another one has its name now. */
  attached: boolean;
  /** What the interface under the filter is called now, where that is not the name it was attached by. */
  renamedTo?: string;
  mode: 'driver' | 'generic';
  /** Another one after each attach. */
  linkId: number;
  settings: KernelSettings;
  /** The number that the last commit was given; 0 before the first. */
  generation: number;
  /** Entries in the lists, those that ended and were not swept yet included. */
  bans: number;
  allowed: number;
  management: number;
  memoryBytes: number;
  /** Bans that the kernel refused, and that gave way or found no room in a full list, since the attach. */
  refused: number;
  replaced: number;
  leftOut: number;
  counters: readonly KernelCounter[];
}>;

const whole = z.number().min(0);
const counter = z.object({ packets: whole, bytes: whole });
const statusShape = z.object({
  attached: z.boolean(),
  presentName: z.string().nullish(),
  mode: z.enum(['driver', 'generic']),
  linkId: whole,
  config: z.object({
    ...{ packetCap: whole, packetWindowMs: whole, synCap: whole, synWindowMs: whole },
    ...{ eventsPerSecond: whole, eventQuietSeconds: whole },
    dryRun: z.boolean(),
    deepVlan: z.enum(['drop', 'pass']),
    management: z.array(z.string()),
  }),
  lists: z.object({ generation: whole, replaced: whole, leftOut: whole, refused: whole }),
  counters: z.record(z.string(), z.record(z.string(), counter)),
  maps: z.record(z.string(), z.object({ entries: whole.optional() })),
  memoryBytes: whole,
});
const commitShape = z.object({
  op: z.literal('commit'),
  ok: z.literal(true),
  generation: whole,
  bans: whole,
  allows: whole,
  leftOut: whole,
  refused: whole,
  refusals: z.array(z.object({ list: z.string(), net: z.string(), error: z.string() })).default([]),
});
const named = (refusals: z.output<typeof commitShape>['refusals']): string[] =>
  refusals.map(({ list, net, error }) => `${list} ${net} (${error})`);
const failureShape = z.object({ ok: z.literal(false), message: z.string(), remedy: z.string() });
const complaintShape = z.object({ ok: z.literal(false), error: z.string() });

/** Throws XDP_LOADER_ANSWER. */
export function readStatus({ stdout }: Answered): KernelStatus {
  const read = statusShape.safeParse(parsed(lastLine(stdout)));
  if (!read.success) {
    const issue = read.error.issues[0];
    const why = `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'unknown'}`;
    throw new Fault('XDP_LOADER_ANSWER', { what: 'status', why });
  }
  const { config, lists, maps, counters, ...rest } = read.data;
  const entries = (list: string): number =>
    Object.entries(maps).reduce(
      (sum, [name, map]) =>
        new RegExp(`^${list}(?:_net)?[46]$`).test(name) ? sum + (map.entries ?? 0) : sum,
      0,
    );
  return {
    attached: rest.attached,
    ...(rest.presentName === undefined || rest.presentName === null ? {} : { renamedTo: rest.presentName }),
    mode: rest.mode,
    linkId: rest.linkId,
    settings: settingsIn(config),
    ...lists,
    bans: entries('ban'),
    allowed: entries('allow'),
    management: entries('management'),
    memoryBytes: rest.memoryBytes,
    counters: Object.entries(counters).flatMap(([group, names]) =>
      Object.entries(names).map(([name, counts]) => ({ group, name, ...counts })),
    ),
  };
}

type ConfigRead = z.output<typeof statusShape>['config'];

function settingsIn({ packetCap, synCap, ...others }: ConfigRead): KernelSettings {
  return { ...others, packetsPerSecond: packetCap, synPerSecond: synCap };
}

/** An entry of the kernel's lists that is in force. */
export type ListedEntry = Readonly<{
  list: 'management' | 'allow' | 'ban';
  net: string;
  /** Wall clock, milliseconds; infinite for one without end. */
  untilMs: number;
  severity: number;
}>;

const listedShape = z.object({
  list: z.enum(['management', 'allow', 'ban']),
  net: z.string(),
  until: whole.nullable(),
  severity: whole,
  inForce: z.boolean(),
});

/** Those in force. Throws XDP_LOADER_ANSWER. */
export function readList({ stdout }: Answered): readonly ListedEntry[] {
  const entries: ListedEntry[] = [];
  for (let from = 0, end = 0; from < stdout.length; from = end + 1) {
    end = stdout.indexOf('\n', from);
    // Its end is missing: the answer was cut off.
    const read = end < 0 ? undefined : listedShape.safeParse(parsed(stdout.slice(from, end)));
    if (read?.success !== true) {
      throw new Fault('XDP_LOADER_ANSWER', { what: 'list', why: `line ${entries.length + 1} is no entry` });
    }
    const { list, net, until, severity, inForce } = read.data;
    if (inForce) entries.push({ list, net, untilMs: until ?? Infinity, severity });
  }
  return entries;
}

/**
 * The commit of this generation, whatever single lines were refused. Throws XDP_LOADER_FAILED where there was
 * none: then nothing has changed.
 */
export function readCommit(
  answer: Answered,
  generation: number,
): { bans: number; allowed: number; leftOut: number; refused: number; named: readonly string[] } {
  const lines = answer.stdout.split('\n').filter((line) => line !== '');
  const read = commitShape.safeParse(parsed(lines.at(-1) ?? ''));
  if (read.success && read.data.generation === generation) {
    const { bans, allows, leftOut, refused, refusals } = read.data;
    return { bans, allowed: allows, leftOut, refused, named: named(refusals) };
  }
  const { message, remedy } = readAnswer(answer);
  throw new Fault('XDP_LOADER_FAILED', { what: 'take the lists', why: message, remedy });
}

/** Why a run failed, in the loader's words. */
export function readAnswer({ code, stdout, stderr }: Answered): { message: string; remedy: string } {
  const last = parsed(lastLine(stdout));
  const failure = failureShape.safeParse(last);
  if (failure.success) return failure.data;
  const complaint = complaintShape.safeParse(last);
  const words = complaint.success ? complaint.data.error : stderr.slice(-300);
  return {
    message: words === '' ? `it ended with exit code ${code}` : words,
    remedy: 'the filter stays as it was; bpf/README.md explains the exit codes of the loader',
  };
}

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
