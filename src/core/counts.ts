/** Counters over a closed set of names. */

/** One counter for each name, at zero. */
export function zeros<T extends string>(names: readonly T[]): Record<T, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<T, number>;
}
