/**
 * Opens a MaxMind-format database. The file is read whole into memory, so that one that is overwritten in
 * place never reaches a reader in use, and a new one must answer test look-ups before it is swapped in.
 */
import { readFile } from 'node:fs/promises';
import { Reader } from 'maxmind';
import { createPacer } from '../core/pacer.js';
import { implausible, reason, unreadable } from './lines.js';
import type { FeedFile } from './source.js';

export type Opened = Readonly<{ bytes: Buffer; reader: Reader<never> }>;

const BYTES_MIN = 64;

/**
 * `isUseful`: whether a record holds what is wanted of it; `wanted` says so in words. Throws FEED_UNREADABLE
 * and FEED_IMPLAUSIBLE.
 */
export async function openMmdb<Row>(
  file: FeedFile,
  isUseful: (row: Row) => boolean,
  wanted: string,
): Promise<Opened> {
  const bytes = await readFile(file.path).catch((error: unknown) => {
    throw unreadable(file, reason(error), error);
  });
  if (bytes.length < BYTES_MIN) throw implausible(file, `only ${bytes.length} bytes`);
  const reader = openReader(file, bytes);
  const { found, useful } = await testLookups(file, reader, isUseful);
  if (found > 0 && useful === 0) throw implausible(file, `no field ${wanted}`);
  return { bytes, reader };
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

/** A look-up in each /8 and a few more: none may throw, and something of what is found must be useful. */
async function testLookups<Row>(file: FeedFile, reader: Reader<never>, isUseful: (row: Row) => boolean) {
  const pause = createPacer();
  let [found, useful] = [0, 0];
  for (let at = 0; at < 224 * 4; at++) {
    const ip = `${at >> 2}.${(at & 3) * 61}.${(at & 3) * 37}.1`;
    try {
      const row = reader.get(ip) as Row | null;
      if (row !== null) found++;
      if (row !== null && isUseful(row)) useful++;
    } catch (error) {
      throw unreadable(file, `looking up ${ip} failed`, error);
    }
    await pause();
  }
  return { found, useful };
}
