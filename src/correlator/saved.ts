/** Reading saved parts: a value of another shape is an exception, and the reader of the part starts anew. */
import type { Saved } from './detector.js';

export type Row = readonly Saved[];

export function listOf(saved: Saved | undefined): Row {
  if (!Array.isArray(saved)) throw new TypeError('a saved list is missing');
  return saved as Row;
}

export function recordOf(saved: Saved | undefined): Readonly<Record<string, Saved>> {
  if (typeof saved !== 'object' || saved === null || Array.isArray(saved)) {
    throw new TypeError('a saved record is missing');
  }
  return saved as Readonly<Record<string, Saved>>;
}

export function numberOf(saved: Saved | undefined): number {
  if (typeof saved !== 'number' || !Number.isFinite(saved)) throw new TypeError('a saved number is missing');
  return saved;
}

export function textOf(saved: Saved | undefined): string {
  if (typeof saved !== 'string') throw new TypeError('a saved text is missing');
  return saved;
}

/** `null` stands for undefined. */
export function maybe<T>(saved: Saved | undefined, read: (saved: Saved) => T): T | undefined {
  return saved === null || saved === undefined ? undefined : read(saved);
}
