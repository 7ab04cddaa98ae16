/** Looks inside zod schemas: which keys stand where, through defaults, options, transforms and unions. */
import { z } from 'zod';
import type { Path } from './problem.js';

export type Schema = z.core.$ZodType;

/** Without what merely wraps it: default, prefault, optional, readonly, and the input side of a transform. */
export function unwrap(schema: Schema): Schema {
  for (let at = schema; ;) {
    if (at instanceof z.ZodPipe) at = at.in instanceof z.ZodTransform ? at.out : at.in;
    else if (
      at instanceof z.ZodDefault ||
      at instanceof z.ZodPrefault ||
      at instanceof z.ZodOptional ||
      at instanceof z.ZodNullable ||
      at instanceof z.ZodReadonly
    ) {
      at = at.unwrap();
    } else return at;
  }
}

/** Names of the keys allowed at `path`, of every alternative there; empty where any key or none is. */
export function keysAt(schema: Schema, path: Path): string[] {
  const here = unwrap(schema);
  if (here instanceof z.ZodUnion) return [...new Set(here.options.flatMap((option) => keysAt(option, path)))];
  if (path.length === 0) return here instanceof z.ZodObject ? Object.keys(here.shape) : [];
  const [first, ...rest] = path;
  if (here instanceof z.ZodObject) {
    const next = (here.shape as Record<string, Schema>)[String(first)];
    return next === undefined ? [] : keysAt(next, rest);
  }
  if (here instanceof z.ZodArray) return keysAt(here.element, rest);
  if (here instanceof z.ZodRecord) return keysAt(here.valueType, rest);
  return [];
}
