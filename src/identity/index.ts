/** All dimensions, in one visible list, behind the reader that the engines get. */
import type { Identities, IdentityName } from '../core/identity.js';
import type { IdentityConfig } from './config.js';
import type { Dimension } from './dimension.js';
import { apiKey } from './dimensions/api-key.js';
import { host } from './dimensions/host.js';
import { ip } from './dimensions/ip.js';
import { path } from './dimensions/path.js';
import { issuedSession, session } from './dimensions/session.js';
import { site } from './dimensions/site.js';
import { user } from './dimensions/user.js';
import { wideIp } from './dimensions/wide-ip.js';
import { createKeyedHash } from './hash.js';

export { randomHashKey } from './hash.js';

/** `hashKey`: the same text in every worker; see `hash.ts`. */
export function createIdentities(config: IdentityConfig, hashKey: string): Identities {
  const hash = createKeyedHash(hashKey);
  const dimensions: readonly Dimension[] = [
    ip,
    wideIp,
    session(config.session.cookie, hash),
    apiKey(config.apiKey.header.toLowerCase(), hash),
    user(config.user, hash),
    path,
    host,
    site,
  ];
  const byName = new Map<IdentityName, Dimension>(dimensions.map((dimension) => [dimension.name, dimension]));
  return {
    read: (name, facts, field) => byName.get(name)?.read(facts, field),
    others: (name, facts, field) => byName.get(name)?.others?.(facts, field) ?? [],
    inBody: (name) => byName.get(name)?.inBody ?? false,
    issued: issuedSession(config.session.cookie, hash),
  };
}
