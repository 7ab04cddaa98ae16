/** Reading values of a config as they were written, before any schema: odd shapes are as good as missing. */
import type { Path } from './problem.js';

export function at(value: unknown, path: Path): unknown {
  let here = value;
  for (const part of path) {
    if (typeof here !== 'object' || here === null) return undefined;
    here = (here as Record<string | number, unknown>)[part];
  }
  return here;
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
