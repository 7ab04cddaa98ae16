/**
 * The book in memory on disk, one JSON line each between a head and a foot: written to a draft and renamed,
 * so that a crash leaves the old file or the new one. A file without its foot or with a damaged line is not
 * believed; it is told and set aside, never read as an empty book in silence.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { Fault } from '../core/errors.js';
import { createPacer } from '../core/pacer.js';
import { subjectOf, type Ban } from './ban.js';
import type { AuditEntry } from './ban-book-contract.js';
import { asAuditEntry, asBan } from './ban-json.js';
import type { LedgerEntry } from './judge-ask.js';
import type { BookState } from './memory-book.js';

const KIND = 'tidegate-bans';
const WRITE_LINES = 500;

/** Throws what the file system says. */
export async function saveBook(path: string, state: BookState): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`;
  await mkdir(dirname(path), { recursive: true });
  const out = createWriteStream(draft, { mode: 0o640 });
  try {
    await once(out, 'open');
    const pause = createPacer();
    let lines = [JSON.stringify({ kind: KIND, v: 1, version: state.version })];
    let count = 0;
    for (const line of linesOf(state)) {
      lines.push(JSON.stringify(line));
      count++;
      if (lines.length < WRITE_LINES) continue;
      if (!out.write(`${lines.join('\n')}\n`)) await once(out, 'drain');
      lines = [];
      await pause();
    }
    lines.push(JSON.stringify({ end: count }));
    out.end(`${lines.join('\n')}\n`);
    await once(out, 'close');
    await rename(draft, path);
  } catch (error) {
    out.destroy();
    await rm(draft, { force: true });
    throw error;
  }
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
  const pause = createPacer();
  let number = 0;
  let ended = false;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    number++;
    const value: unknown = JSON.parse(line);
    if (number === 1) read.version = versionOf(value);
    else if (isEnd(value, number - 2)) ended = true;
    else if (ended || !take(value, read)) throw new Error(`line ${number} is damaged`);
    await pause();
  }
  if (!ended) throw new Error('it is cut off');
  return read;
}

type Fields = Readonly<Record<string, unknown>>;

function versionOf(value: unknown): number {
  const { kind, v, version } = value as Fields;
  if (kind !== KIND || v !== 1) throw new Error('not a file of bans');
  return typeof version === 'number' ? version : 0;
}

const isEnd = (value: unknown, count: number): boolean => (value as Fields)['end'] === count;

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
