/**
 * Loads the script of the bans: lua/bans.lua with the operations, each file a function body, joined into one
 * text whose SHA1 is known before Redis is; and names what every call of it carries.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { luaFolder, type Script } from '../redis/scripts.js';

const OPERATIONS = {
  ban: 'ban',
  unban: 'unban',
  putBack: 'put-back',
  lift: 'lift',
  read: 'bans-read',
} as const;

export type BanOperation = keyof typeof OPERATIONS | 'note' | 'sweep' | 'audit';

/** One slot in Cluster. */
const TAG = '{bans}';
const NAMES = ['held', 'ends', 'order', 'ledger', 'forget', 'audit'] as const;
export const BAN_KEYS = NAMES.map((name) => `${TAG}:${name}`);
export const BAN_CHANNEL = `${TAG}:changes`;

/** Small enough to stand here. */
const SMALL = `operations['note'] = function() write(ARGV[9], ARGV[10]) return { 1 } end
operations['sweep'] = function() prepare() return { sweep(1000) } end
operations['audit'] = function() return call('XREVRANGE', AUDIT, '+', '-', 'COUNT', ARGV[9]) end`;

/** Reads `lua/`; throws where a file is missing (a broken installation). For the start. */
export function loadBanScript(folder = luaFolder()): Script {
  const body = (name: string): string => readFileSync(join(folder, `${name}.lua`), 'utf8').trimEnd();
  const parts = Object.entries(OPERATIONS).map(
    ([name, file]) => `operations['${name}'] = function()\n${body(file)}\nend`,
  );
  const source = [body('bans'), ...parts, SMALL, 'return operations[ARGV[1]]()', ''].join('\n');
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}
