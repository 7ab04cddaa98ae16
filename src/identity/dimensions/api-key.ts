/** The API key in a header of its own (`X-API-Key`), or `Authorization`; always as a keyed hash. */
import type { Dimension } from '../dimension.js';
import type { KeyedHash } from '../hash.js';

export const apiKey = (header: string, hash: KeyedHash): Dimension => ({
  name: 'apiKey',
  inBody: false,
  read(facts) {
    const value = facts.headers.get(header)?.trim();
    return value === undefined || value === '' ? undefined : hash(value);
  },
});
