/**
 * Where the companion reads the bans: the file of the gate's own book, or one that somebody else writes. A
 * read that fails, or finds less than a whole file, rejects: it never looks like an empty list.
 */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Config } from '../config/schema.js';
import { Fault } from '../core/errors.js';
import type { Ban } from '../controls/ban.js';
import { readBanLines } from '../xdp/ban-lines.js';

export type BanSource = Readonly<{
  /** In words, for the log. */
  from: string;
  read: () => Promise<readonly Ban[]>;
  close: () => Promise<void>;
}>;

const FILE_BYTES_MAX = 512 * 1024 * 1024;

/** Throws XDP_NO_BANS where the config names no place that another process can read. */
export async function openBanSource(config: Config): Promise<BanSource> {
  const file = bansFile(config);
  if (file === undefined) throw new Fault('XDP_NO_BANS');
  return {
    from: file,
    close: async () => undefined,
    async read() {
      try {
        if ((await stat(file)).size > FILE_BYTES_MAX) throw new Error('it is too large');
        const { bans, unreadable, first } = readBanLines(await readFile(file, 'utf8'), Date.now());
        if (unreadable > 0) throw new Error(`${unreadable} line(s) are no ban, the first is line ${first}`);
        return bans;
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        throw new Fault('XDP_BANS_UNREADABLE', { from: file, why }, error);
      }
    },
  };
}

/** The file that `xdp.bans` names, else where the gate keeps its book; undefined where it keeps none. */
export function bansFile({ xdp, bans, reputation, baseDir }: Config): string | undefined {
  const named = xdp?.bans ?? bans.stateFile;
  if (named !== undefined) return resolve(baseDir, named);
  return reputation.stateDir === undefined ? undefined : resolve(baseDir, reputation.stateDir, 'bans.jsonl');
}
