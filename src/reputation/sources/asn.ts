/**
 * Owners of addresses from a MaxMind-format database. Only the fields `autonomous_system_number` and
 * `autonomous_system_organization` are relied on. The file is read whole into memory: one that is overwritten
 * in place never reaches a reader in use, and a new one must answer test look-ups before it is swapped in.
 */
import { readFile } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import { Reader } from 'maxmind';
import { parseIpv4 } from '../../core/address.js';
import { createPacer } from '../../core/pacer.js';
import { implausible, reason, unreadable } from '../lines.js';
import { createIpv4Walk } from '../mmdb-tree.js';
import type { FeedFile, Source, Version } from '../source.js';

export type AsnRecord = Readonly<{ number: number; organization: string }>;
/** Undefined where the address has no known owner. Never throws. */
export type AsnLookup = (ip: string) => AsnRecord | undefined;

type Row = { autonomous_system_number?: unknown; autonomous_system_organization?: unknown };

const BYTES_MIN = 64;
const RECORDS_MAX = 8192;

export function asn(file: string): Source<AsnLookup> {
  return { feed: 'asn', from: { file }, read };
}

async function read(file: FeedFile): Promise<Version<AsnLookup>> {
  const bytes = await readFile(file.path).catch((error: unknown) => {
    throw unreadable(file, reason(error), error);
  });
  if (bytes.length < BYTES_MIN) throw implausible(file, `only ${bytes.length} bytes`);
  const reader = openReader(file, bytes);
  await testLookups(file, reader);
  return { value: createLookup(bytes, reader), entries: reader.metadata.nodeCount };
}

function openReader(file: FeedFile, bytes: Buffer): Reader<never> {
  try {
    const reader = new Reader<never>(bytes);
    const { nodeCount, recordSize } = reader.metadata;
    const treeBytes = (nodeCount * recordSize) / 4;
    if (!(nodeCount > 0) || treeBytes + 16 > bytes.length) throw new Error('its search tree is cut off');
    // Sixteen zero bytes part the tree from the data (MaxMind DB format 2.0); shifted bytes show here.
    const gap = bytes.subarray(treeBytes, treeBytes + 16);
    if (gap.some((byte) => byte !== 0)) throw new Error('its data section is misplaced');
    return reader;
  } catch (error) {
    throw unreadable(file, reason(error), error);
  }
}

/** A look-up in each /8 and a few more: none may throw, and what is found must carry an ASN. */
async function testLookups(file: FeedFile, reader: Reader<never>): Promise<void> {
  const pause = createPacer();
  let found = 0;
  let owned = 0;
  for (let at = 0; at < 224 * 4; at++) {
    const ip = `${at >> 2}.${(at & 3) * 61}.${(at & 3) * 37}.1`;
    try {
      const row = reader.get(ip) as Row | null;
      if (row !== null) found++;
      if (typeof row?.autonomous_system_number === 'number') owned++;
    } catch (error) {
      throw unreadable(file, `looking up ${ip} failed`, error);
    }
    await pause();
  }
  if (found > 0 && owned === 0) throw implausible(file, 'no field autonomous_system_number');
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
