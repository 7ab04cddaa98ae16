/**
 * The book in memory on disk, one JSON line each. A file that is cut off or has a damaged line is not
 * believed; it is told and set aside, never read as an empty book in silence.
 */
import { rename } from 'node:fs/promises';
import { Fault } from '../core/errors.js';
import { readStateFile, writeStateFile } from '../core/state-file.js';
import { subjectOf, type Ban } from './ban.js';
import type { AuditEntry } from './ban-book-contract.js';
import { asAuditEntry, asBan } from './ban-json.js';
import type { LedgerEntry } from './judge-ask.js';
import type { BookState } from './memory-book.js';

const KIND = 'tidegate-bans';

/** Throws what the file system says. */
export function saveBook(path: string, state: BookState): Promise<void> {
  const head = { kind: KIND, v: 1, version: state.version };
  return writeStateFile(path, { head, entries: linesOf(state), mode: 0o640 });
}

function* linesOf({ bans, ledger, audit }: BookState): Generator<unknown> {
  for (const ban of bans) yield { ban };
  for (const [key, { strikes, struckMs, seen, pardonMs }, forgetMs] of ledger)
    yield [key, strikes, struckMs, ...seen, pardonMs, forgetMs];
  for (const entry of audit) yield { audit: entry };
}

type Read = { version: number; bans: Ban[]; ledger: BookState['ledger'][number][]; audit: AuditEntry[] };

/**
 * Undefined where there is no file. Throws STATE_UNREADABLE where there is one that cannot be believed; it
 * lies beside as `.damaged` from then on.
 */
export async function loadBook(path: string): Promise<BookState | undefined> {
  try {
    return await readBook(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    await rename(path, `${path}.damaged`).catch(() => undefined);
    const why = error instanceof Error ? error.message : String(error);
    throw new Fault('STATE_UNREADABLE', { file: path, why }, error);
  }
}

async function readBook(path: string): Promise<BookState> {
  const read: Read = { version: 0, bans: [], ledger: [], audit: [] };
  await readStateFile(path, {
    head: (value) => void (read.version = versionOf(value)),
    take: (value) => take(value, read),
  });
  return read;
}

type Fields = Readonly<Record<string, unknown>>;

function versionOf(value: unknown): number {
  const { kind, v, version } = value as Fields;
  if (kind !== KIND || v !== 1) throw new Error('not a file of bans');
  return typeof version === 'number' ? version : 0;
}

/** False for a line that is none of ours. */
function take(value: unknown, into: Read): boolean {
  if (Array.isArray(value)) {
    const entry = asLedger(value);
    if (entry !== undefined) into.ledger.push(entry);
    return entry !== undefined;
  }
  const { ban, audit } = value as Fields;
  const [known, entry] = [asBan(ban), asAuditEntry(audit)];
  if (known !== undefined) into.bans.push(known);
  else if (entry !== undefined) into.audit.push(entry);
  return known !== undefined || entry !== undefined;
}

function asLedger(value: readonly unknown[]): BookState['ledger'][number] | undefined {
  const [key, ...numbers] = value;
  if (typeof key !== 'string' || subjectOf(key) === undefined || numbers.length !== 7) return undefined;
  if (!numbers.every((number) => Number.isFinite(number))) return undefined;
  const [strikes, struckMs, watch, observe, enforce, pardonMs, forgetMs] = numbers as number[];
  const seen = [watch!, observe!, enforce!] as const;
  const entry: LedgerEntry = { strikes: strikes!, struckMs: struckMs!, seen, pardonMs: pardonMs! };
  return [key, entry, forgetMs!];
}
