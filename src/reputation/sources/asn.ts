/**
 * Owners of addresses from a MaxMind-format database. Only the fields `autonomous_system_number` and
 * `autonomous_system_organization` are relied on.
 */
import { LRUCache } from 'lru-cache';
import type { Reader } from 'maxmind';
import { parseIpv4 } from '../../core/address.js';
import { openMmdb } from '../mmdb.js';
import { createIpv4Walk } from '../mmdb-tree.js';
import type { FeedFile, Source, Version } from '../source.js';

export type AsnRecord = Readonly<{ number: number; organization: string }>;
/** Undefined where the address has no known owner. Never throws. */
export type AsnLookup = (ip: string) => AsnRecord | undefined;

type Row = { autonomous_system_number?: unknown; autonomous_system_organization?: unknown };

const RECORDS_MAX = 8192;

export function asn(file: string): Source<AsnLookup> {
  return { feed: 'asn', from: { file }, read };
}

async function read(file: FeedFile): Promise<Version<AsnLookup>> {
  const hasNumber = (row: Row): boolean => typeof row.autonomous_system_number === 'number';
  const { bytes, reader } = await openMmdb(file, hasNumber, 'autonomous_system_number');
  return { value: createLookup(bytes, reader), entries: reader.metadata.nodeCount };
}

function createLookup(bytes: Buffer, reader: Reader<never>): AsnLookup {
  const walk = createIpv4Walk(bytes, reader.metadata);
  // By where the tree points to: one owner has many ranges and addresses.
  const owners = new LRUCache<number, AsnRecord>({ max: RECORDS_MAX });
  const decode = (ip: string): AsnRecord | undefined => {
    try {
      return ownerOf(reader.get(ip));
    } catch {
      // An IPv6 address in an IPv4 database, or a damaged record: unknown, never an exception in a request.
      return undefined;
    }
  };
  return (ip) => {
    const address = walk === undefined ? -1 : parseIpv4(ip);
    if (walk === undefined || address < 0) return decode(ip);
    const pointer = walk(address);
    if (pointer <= reader.metadata.nodeCount) return undefined;
    const known = owners.get(pointer);
    if (known !== undefined) return known;
    const owner = decode(ip);
    if (owner !== undefined) owners.set(pointer, owner);
    return owner;
  };
}

function ownerOf(row: Row | null): AsnRecord | undefined {
  if (row === null || typeof row.autonomous_system_number !== 'number') return undefined;
  const name = row.autonomous_system_organization;
  return { number: row.autonomous_system_number, organization: typeof name === 'string' ? name : '' };
}
