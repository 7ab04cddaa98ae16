/**
 * Tor exits from an Onionoo details document (metrics.torproject.org/onionoo.html): `exit_addresses` are what
 * a relay was seen to use, `or_addresses` where it listens; exits mostly leave by the latter too. The
 * document can be tens of megabytes, so relays are cut out of the stream and parsed one by one.
 */
import { parseNetwork } from '../../core/address.js';
import { createCidrSet } from '../../structures/cidr-set.js';
import type { CidrSet } from '../../structures/cidr-set.js';
import { createJsonItems } from '../json-items.js';
import { feedChunks, implausible } from '../lines.js';
import type { FeedFile, Source, Version } from '../source.js';

export function tor(from: Source<CidrSet>['from']): Source<CidrSet> {
  return { feed: 'tor', from, read };
}

async function read(file: FeedFile): Promise<Version<CidrSet>> {
  const set = createCidrSet();
  let bad = 0;
  const items = createJsonItems('relays', (text) => {
    for (const address of exitAddresses(text)) {
      const network = parseNetwork(address);
      if (network === undefined) bad++;
      else set.add(network);
    }
  });
  for await (const chunk of feedChunks(file)) {
    if (!items.push(chunk)) throw implausible(file, 'not an Onionoo document');
  }
  if (!items.complete()) throw implausible(file, 'cut off before its end');
  if (set.size === 0) throw implausible(file, 'it names no exit');
  const version = { value: set, entries: set.size };
  return bad === 0 ? version : { ...version, warning: `${bad} unreadable address(es)` };
}

/**
 * A relay is an exit when its flags say so, or it was seen to exit, or the document leaves flags out
 * (`fields=`).
 */
function exitAddresses(text: string): string[] {
  let relay: unknown;
  try {
    relay = JSON.parse(text);
  } catch {
    return ['unreadable'];
  }
  const { flags, exit_addresses: seen, or_addresses: listening } = relay as Record<string, unknown>;
  const exits = strings(seen);
  const isExit = exits.length > 0 || !Array.isArray(flags) || flags.includes('Exit');
  return isExit ? [...exits, ...strings(listening).map(withoutPort)] : [];
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function withoutPort(text: string): string {
  if (text.startsWith('[')) return text.slice(1, text.indexOf(']'));
  const colon = text.indexOf(':');
  return colon >= 0 && colon === text.lastIndexOf(':') ? text.slice(0, colon) : text;
}
