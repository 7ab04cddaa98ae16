/**
 * The book in memory on disk, one JSON line each, and the journals of what came after. A file that is cut off
 * or has a damaged line is not believed; it is told and set aside, never read as an empty book in silence.
 */
import { createReadStream } from 'node:fs';
import { rename } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Fault } from '../core/errors.js';
import { createPacer } from '../core/pacer.js';
import { readStateFile, writeStateFile } from '../core/state-file.js';
import { subjectKey, type Ban } from './ban.js';
import type { AuditEntry } from './ban-book-contract.js';
import { asBookLine, bookLineIn, journalsFrom, ledgerRow } from './book-journal.js';
import type { BookLine, LedgerRow } from './book-journal.js';
import type { BookState } from './memory-book.js';

const KIND = 'tidegate-bans';

/** `journal`: number of the first journal that `state` does not hold. Throws what the file system says. */
export function saveBook(path: string, state: BookState, journal = 0): Promise<void> {
  const head = { kind: KIND, v: 1, version: state.version, journal };
  return writeStateFile(path, { head, entries: linesOf(state), mode: 0o640 });
}

function* linesOf({ bans, ledger, audit }: BookState): Generator<unknown> {
  for (const ban of bans) yield { ban };
  for (const row of ledger) yield ledgerRow(row);
  for (const entry of audit) yield { audit: entry };
}

type Read = {
  version: number;
  journal: number;
  bans: Map<string, Ban>;
  ledger: Map<string, LedgerRow>;
  audit: AuditEntry[];
};

export type LoadedBook = Readonly<{
  /** Undefined where there is neither a file nor a journal. */
  state: BookState | undefined;
  /** Lines that came from journals. */
  journalled: number;
  /** What could not be believed: the file (`.damaged` from then on), lines of journals. */
  problems: readonly Fault[];
}>;

/** Never throws. */
export async function loadBook(path: string): Promise<LoadedBook> {
  const problems: Fault[] = [];
  const whole = await readBook(path).catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    await rename(path, `${path}.damaged`).catch(() => undefined);
    problems.push(unreadable(path, error));
    return undefined;
  });
  const read = whole ?? nothing();
  let journalled = 0;
  for (const file of await journalsFrom(path, read.journal)) {
    const { taken, damaged } = await readJournal(file, read).catch((error: unknown) => {
      problems.push(unreadable(file, error));
      return { taken: 0, damaged: [] };
    });
    journalled += taken;
    if (damaged.length === 0) continue;
    const lines = `${damaged.length === 1 ? 'line' : 'lines'} ${damaged.slice(0, 5).join(', ')}`;
    const why = `${lines} of ${taken + damaged.length} damaged and left out, the rest is taken`;
    problems.push(new Fault('STATE_UNREADABLE', { file, why }));
  }
  if (whole === undefined && journalled === 0) return { state: undefined, journalled, problems };
  const { version, bans, ledger, audit } = read;
  const state = { version, bans: [...bans.values()], ledger: [...ledger.values()], audit };
  return { state, journalled, problems };
}

function unreadable(file: string, error: unknown): Fault {
  const why = error instanceof Error ? error.message : String(error);
  return new Fault('STATE_UNREADABLE', { file, why }, error);
}

const nothing = (): Read => ({ version: 0, journal: 0, bans: new Map(), ledger: new Map(), audit: [] });

async function readBook(path: string): Promise<Read> {
  const read = nothing();
  await readStateFile(path, {
    head: (value) => takeHead(value, read),
    take: (value) => take(asBookLine(value), read),
  });
  return read;
}

async function readJournal(file: string, into: Read): Promise<{ taken: number; damaged: number[] }> {
  const pause = createPacer();
  const damaged: number[] = [];
  let number = 0;
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number++;
    if (!take(bookLineIn(text), into)) damaged.push(number);
    await pause();
  }
  return { taken: number - damaged.length, damaged };
}

function takeHead(value: unknown, into: Read): void {
  const { kind, v, version, journal } = value as Readonly<Record<string, unknown>>;
  if (kind !== KIND || v !== 1) throw new Error('not a file of bans');
  into.version = typeof version === 'number' ? version : 0;
  into.journal = typeof journal === 'number' ? journal : 0;
}

/** False for a line that is none of ours. Later ones win. */
function take(line: BookLine | undefined, into: Read): boolean {
  if (line === undefined) return false;
  if ('audit' in line) into.audit.push(line.audit);
  else if ('lifted' in line) into.bans.delete(line.lifted);
  else if ('ban' in line) put(into.bans, subjectKey(line.ban.subject), line.ban);
  else put(into.ledger, line.ledger[0], line.ledger);
  return true;
}

/** At the end: the order is that of age. */
function put<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
}
