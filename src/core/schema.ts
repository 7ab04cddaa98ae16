/**
 * Words that config sections share: durations, sizes, rates, networks. Text in the file, plain numbers in the
 * code.
 */
import ipaddr from 'ipaddr.js';
import { z } from 'zod';

const DURATION_MS: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const SIZE_BYTES: Record<string, number> = {
  b: 1,
  kb: 1024,
  kib: 1024,
  mb: 1024 ** 2,
  mib: 1024 ** 2,
  gb: 1024 ** 3,
  gib: 1024 ** 3,
};

/** `500ms`, `10s`, `15m`, `24h`, `7d` → whole milliseconds; undefined where it does not fit. */
export function parseDuration(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)$/.exec(text.trim());
  return found === null ? undefined : Math.round(Number(found[1]) * (DURATION_MS[found[2] ?? ''] ?? NaN));
}

/** `256KB`, `1MiB`, `4096` → bytes (KB is 1024); undefined where it does not fit. */
export function parseBytes(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)\s*(b|kb|kib|mb|mib|gb|gib)?$/i.exec(text.trim());
  return found === null
    ? undefined
    : Math.round(Number(found[1]) * (SIZE_BYTES[(found[2] ?? 'b').toLowerCase()] ?? NaN));
}

/** `5/min`, `600/m`, `60/10s`, `3/h` → limit and window; undefined where it does not fit. */
export function parseRate(text: string): { limit: number; windowMs: number } | undefined {
  const found = /^(\d+)\s*\/\s*(\d*)\s*(ms|s|sec|m|min|h|hour|d|day)$/.exec(text.trim());
  if (found === null) return undefined;
  const unit = { sec: 's', hour: 'h', day: 'd' }[found[3] ?? ''] ?? found[3] ?? '';
  const windowMs = Number(found[2] === '' ? 1 : found[2]) * (DURATION_MS[unit] ?? NaN);
  const limit = Number(found[1]);
  return limit > 0 && windowMs > 0 ? { limit, windowMs } : undefined;
}

type Range = { min?: number; max?: number };

function measured(
  kind: string,
  example: string,
  parse: (text: string) => number | undefined,
  fallback: string,
  range: Range,
) {
  const min = range.min ?? 0;
  const max = range.max ?? Number.MAX_SAFE_INTEGER;
  const unit = kind === 'duration' ? ' ms' : '';
  return z
    .union([z.string(), z.number()])
    .transform((value, context): number => {
      const parsed = typeof value === 'number' ? value : parse(value);
      if (parsed === undefined || !Number.isFinite(parsed)) {
        context.addIssue({
          code: 'custom',
          message: `found ${JSON.stringify(value)}; a ${kind} such as ${example} fits`,
        });
        return z.NEVER;
      }
      if (parsed < min || parsed > max) {
        context.addIssue({
          code: 'custom',
          message: `found ${JSON.stringify(value)}; from ${min} to ${max}${unit} fits`,
        });
        return z.NEVER;
      }
      return parsed;
    })
    .prefault(fallback)
    .meta({ kind, ...(range.min === undefined ? {} : { min }), ...(range.max === undefined ? {} : { max }) });
}

/** Node's timers end at 24 days (longer ones fire at once), and some wait a multiple of what is set. */
const DURATION_MAX_MS = 10 * 86_400_000;

/** A duration in the file (`10s`), whole milliseconds in the code. Range in milliseconds; at most 10 days. */
export const duration = (fallback: string, range: Range = {}) =>
  measured('duration', '10s or 500ms', parseDuration, fallback, { max: DURATION_MAX_MS, ...range });

/** One that feeds no timer: it is only reckoned with. Up to ten years. */
export const span = (fallback: string, range: Range = {}) =>
  measured('duration', '24h or 30d', parseDuration, fallback, { max: 3650 * 86_400_000, ...range });

/** A size in the file (`256KB`), bytes in the code. Range in bytes. */
export const bytes = (fallback: string, range: Range = {}) =>
  measured('size', '256KB or 10MB', parseBytes, fallback, range);

/** An address or a network in CIDR notation. */
export const cidr = () =>
  z.string().refine((text) => ipaddr.isValidCIDR(text) || ipaddr.isValid(text), {
    error: (issue) =>
      `found ${JSON.stringify(issue.input)}; an address or network such as 10.0.0.0/8 or 2001:db8::/32 fits`,
  });
