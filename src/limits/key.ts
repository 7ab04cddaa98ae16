/**
 * Counter keys: `rl:<by>:{<identity>}:<policy>/<algorithm>/<windowMs>`. Two requests share a key only when
 * identity and policy are the same; an identity is bounded and cannot bring braces, separators or a hash tag
 * of its own. All policies over one identity share a cluster slot. Algorithm and window are in it, so that a
 * reload never misreads state.
 */
import { createHash } from 'node:crypto';

export const MISSING = '-';
const PLAIN = /^[A-Za-z0-9._:/-]{1,64}$/;

/**
 * An identity as it may stand in a key: plain where it is short and harmless, else `#` and a hash (never
 * plain itself).
 */
export function encodeIdentity(value: string | undefined): string {
  if (value === undefined) return MISSING;
  if (value !== MISSING && PLAIN.test(value)) return value;
  return `#${createHash('sha256').update(value).digest('base64url').slice(0, 32)}`;
}

export type KeyParts = Readonly<{ prefix: string; suffix: string }>;

export function keyParts(
  by: string,
  policy: string,
  shape: { algorithm: string; windowMs: number },
): KeyParts {
  return { prefix: `rl:${by.toLowerCase()}:{`, suffix: `}:${policy}/${shape.algorithm}/${shape.windowMs}` };
}
