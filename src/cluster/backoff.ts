/**
 * How long to wait before a dead worker is replaced: doubles with each quick death, forgets after half a
 * minute of health.
 */

export const RESTART_FIRST_MS = 250;
export const RESTART_MAX_MS = 10_000;
export const HEALTHY_MS = 30_000;

/** `deaths`: quick deaths in a row before this one; `livedMs`: how long this worker lived. */
export function nextRestart(deaths: number, livedMs: number): { waitMs: number; deaths: number } {
  const row = livedMs >= HEALTHY_MS ? 0 : deaths;
  return { waitMs: Math.min(RESTART_MAX_MS, RESTART_FIRST_MS * 2 ** Math.min(row, 10)), deaths: row + 1 };
}
