/** Exponential decay: what a score is worth after a while. Pure. */

/** `score` after `elapsedMs`, halved once every `halfLifeMs`; time running backwards changes nothing. */
export function decayed(score: number, elapsedMs: number, halfLifeMs: number): number {
  return elapsedMs <= 0 ? score : score * 2 ** (-elapsedMs / halfLifeMs);
}
