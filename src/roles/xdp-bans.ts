/**
 * Where the companion reads the bans: the book in Redis, the file of the gate's own book, or a file that
 * somebody else writes. A read that fails, finds less than a whole file, or a Redis that has just lost its
 * book rejects: it never looks like an empty list.
 */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import type { Ban } from '../controls/ban.js';
import { openRedisBook } from '../controls/open-redis-book.js';
import type { RedisBook } from '../controls/redis-book.js';
import { parseNetwork } from '../core/address.js';
import { readBanLines } from '../xdp/ban-lines.js';
import { createRangeSet, rangeOf } from '../xdp/ranges.js';

export type XdpBans = Readonly<{
  /** In words, for the log. */
  from: string;
  /** `held`: what the kernel bans from before this process. */
  read: (held: readonly string[]) => Promise<readonly Ban[]>;
  close: () => Promise<void>;
}>;

const FILE_BYTES_MAX = 512 * 1024 * 1024;
const CONNECT_MS = 2_000;
/** Gates that follow a book put their bans back into it within seconds; a round later it is believed. */
const EPOCH_PATIENCE_MS = 15_000;

/**
 * `xdp.bans` before `redis` before the gate's own file. Throws XDP_NO_BANS where the config names no place
 * that another process can read, REDIS_SETTINGS.
 */
export async function openBanSource(config: Config): Promise<XdpBans> {
  if (config.redis !== undefined && config.xdp?.bans === undefined) {
    const { book, settings, settled } = await openRedisBook(config.redis, {
      baseDir: config.baseDir,
      rules: () => config.bans,
    });
    await settled(CONNECT_MS);
    return { from: `Redis at ${settings.address}`, read: readerOf(book, Date.now), close: book.close };
  }
  const file = bansFile(config);
  if (file === undefined) throw new Fault('XDP_NO_BANS');
  return { from: file, read: () => readBanFile(file), close: async () => undefined };
}

/** The file that `xdp.bans` names, else where the gate keeps its book; undefined where it keeps none. */
export function bansFile({ xdp, bans, reputation, baseDir }: Config): string | undefined {
  const named = xdp?.bans ?? bans.stateFile;
  if (named !== undefined) return resolve(baseDir, named);
  return reputation.stateDir === undefined ? undefined : resolve(baseDir, reputation.stateDir, 'bans.jsonl');
}

/** Rejects with XDP_BANS_UNREADABLE. */
export async function readBanFile(file: string): Promise<readonly Ban[]> {
  try {
    if ((await stat(file)).size > FILE_BYTES_MAX) throw new Error('it is too large');
    const { bans, problem } = readBanLines(await readFile(file, 'utf8'), Date.now());
    if (problem !== undefined) throw new Error(problem);
    return bans;
  } catch (error) {
    throw new Fault('XDP_BANS_UNREADABLE', { from: file, why: whyOf(error) }, error);
  }
}

function whyOf(error: unknown): string {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT')
    return 'there is no such file (a gate writes its own with its first ban)';
  return error instanceof Error ? error.message : String(error);
}

/**
 * Redis may come back without its data; the gates that follow it notice and put their bans back. Until then
 * its list is not believed. Started after such a loss, the reader sees it by what the kernel still holds.
 */
export function readerOf(book: Pick<RedisBook, 'readAll'>, nowMs: () => number): XdpBans['read'] {
  let known: string | undefined;
  let changedMs: number | undefined;
  return async (held) => {
    const { epoch, bans } = await book.readAll();
    // A book that never was has no epoch: its first one is no loss.
    const isSame = known === undefined ? !lacksMost(bans, held) : known === epoch || known === '';
    if (!isSame) {
      changedMs ??= nowMs();
      if (nowMs() - changedMs < EPOCH_PATIENCE_MS) {
        const why = 'the book was lost there; the gates are given a moment to put their bans back';
        throw new Fault('XDP_BANS_UNREADABLE', { from: 'Redis', why });
      }
    }
    known = epoch;
    changedMs = undefined;
    return bans;
  };
}

/** Whether more than half of what the kernel holds is in no ban. */
function lacksMost(bans: readonly Ban[], held: readonly string[]): boolean {
  const banned = createRangeSet(
    bans.flatMap(({ subject }) => (subject.kind === 'network' ? [[subject.value, 'banned'] as const] : [])),
  );
  const lacking = held.filter((net) => {
    const network = parseNetwork(net);
    return network !== undefined && banned.touching(rangeOf(network)) === undefined;
  });
  return lacking.length > held.length / 2;
}
