/**
 * Loads the counting script: lua/check-all.lua with the five algorithms, each file a function body named like
 * its TypeScript twin, joined into one text whose SHA1 is known before Redis is.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The order is that of the numbers by which ARGV names an algorithm: append only. */
const ALGORITHMS = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'leaky-bucket',
  'token-bucket',
] as const;

/** As lua/prelude.lua explains them. */
const ARGUMENTS = 'value, op, limit, window, burst, cost, delay_max, clock';

export type Script = Readonly<{
  source: string;
  /** As EVALSHA takes it: 40 lower case hex digits. */
  sha1: string;
}>;

/** Reads `lua/`; throws where a file is missing (a broken installation). For the start, not for requests. */
export function loadCheckScript(folder = luaFolder()): Script {
  const body = (name: string): string => readFileSync(join(folder, `${name}.lua`), 'utf8').trimEnd();
  const parts = ALGORITHMS.map(
    (name, at) => `steps[${at + 1}] = function(${ARGUMENTS})\n${body(name)}\nend`,
  );
  const source = [body('prelude'), ...parts, body('check-all'), ''].join('\n');
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

/** The folder of all scripts: beside `src/` and beside `dist/` alike. */
export function luaFolder(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const folder = join(at, 'lua');
    if (existsSync(join(folder, 'check-all.lua')) || dirname(at) === at) return folder;
  }
}
