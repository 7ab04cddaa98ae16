/**
 * What changed in a book of bans since its file was last saved as a whole: appended beside the file within a
 * moment, numbered, one JSON line each. The whole file names the first journal it does not hold; those before
 * are removed. A torn line costs that line alone.
 */
import { readdirSync } from 'node:fs';
import { appendFile, mkdir, readdir, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { subjectOf, type Ban } from './ban.js';
import type { AuditEntry } from './ban-book-contract.js';
import { asAuditEntry, asBan, parsed } from './ban-json.js';
import type { LedgerEntry } from './judge-ask.js';

/** What a book holds of one subject now, and until when its ledger entry is kept. */
export type Holding = Readonly<{ ban: Ban | undefined; entry: LedgerEntry | undefined; forgetMs: number }>;

/** What changed: a subject, by its key, or one more line of the audit trail. */
export type Written = Readonly<{ key: string }> | Readonly<{ audit: AuditEntry }>;

export type LedgerRow = readonly [key: string, entry: LedgerEntry, forgetMs: number];

/** A line of the file or of a journal. `lifted`: the key of a subject without a ban. */
export type BookLine = Readonly<
  { ban: Ban } | { lifted: string } | { ledger: LedgerRow } | { audit: AuditEntry }
>;

export type Journal = Readonly<{
  write(written: Written): void;
  /** Begins the next journal, for the state as it is now; answers its number. */
  turn(): number;
  /** Removes the journals before this number. Never rejects. */
  dropBefore(number: number): Promise<void>;
  /** Bytes appended since the last turn. */
  bytes(): number;
  /** Resolves when all that was written is on disk. Never rejects. */
  close(): Promise<void>;
}>;

export type JournalDeps = Readonly<{
  /** What the book holds now. */
  of: (key: string) => Holding;
  /** What was to be appended is lost; the next whole save has it. */
  onFailure: (error: unknown) => void;
}>;

const FLUSH_MS = 100;
const AUDIT_MAX = 20_000;

export function createJournal(path: string, { of, onFailure }: JournalDeps): Journal {
  // Never goes on in an older one, whose last line may be torn.
  let number = Math.max(0, ...numbersIn(namesIn(dirname(path)), path)) + 1;
  let keys = new Set<string>();
  let audit: AuditEntry[] = [];
  let timer: NodeJS.Timeout | undefined;
  let bytes = 0;
  let busy = false;
  let work: Promise<void> = Promise.resolve();

  const takeText = (): string => {
    const lines = [...keys].flatMap((key) => linesOf(key, of(key)));
    for (const entry of audit) lines.push(JSON.stringify({ audit: entry }));
    keys = new Set();
    audit = [];
    return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
  };
  const append = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const text = takeText();
    if (text === '') return;
    const file = journalPath(path, number);
    bytes += text.length;
    busy = true;
    work = work
      .then(async () => {
        await mkdir(dirname(path), { recursive: true });
        await appendFile(file, text, { mode: 0o640 });
      })
      .catch(onFailure)
      .then(() => {
        busy = false;
        if (keys.size > 0 || audit.length > 0) soon();
      });
  };
  /** One piece at a time: what comes meanwhile goes together, each subject once. */
  const soon = (): void => {
    if (!busy) timer ??= setTimeout(append, FLUSH_MS).unref();
  };
  return {
    write(written) {
      if ('key' in written) keys.add(written.key);
      else if (audit.length < AUDIT_MAX) audit.push(written.audit);
      soon();
    },
    turn() {
      append();
      bytes = 0;
      return ++number;
    },
    dropBefore(before) {
      work = work.then(() => removeBefore(path, before)).catch(() => undefined);
      return work;
    },
    bytes: () => bytes,
    close() {
      append();
      return work;
    },
  };
}

const journalPath = (path: string, number: number): string => `${path}.journal-${number}`;

function linesOf(key: string, { ban, entry, forgetMs }: Holding): string[] {
  const lines = [JSON.stringify(ban === undefined ? { lifted: key } : { ban })];
  if (entry !== undefined) lines.push(JSON.stringify(ledgerRow([key, entry, forgetMs])));
  return lines;
}

/** As it stands in files. */
export function ledgerRow([key, { strikes, struckMs, seen, pardonMs }, forgetMs]: LedgerRow): unknown {
  return [key, strikes, struckMs, ...seen, pardonMs, forgetMs];
}

/** The line in a value of unknown origin, or undefined. */
export function asBookLine(value: unknown): BookLine | undefined {
  if (Array.isArray(value)) {
    const ledger = asLedger(value);
    return ledger && { ledger };
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { ban, audit, lifted } = value as Readonly<Record<string, unknown>>;
  if (typeof lifted === 'string') return subjectOf(lifted) && { lifted };
  const known = asBan(ban);
  if (known !== undefined) return { ban: known };
  const entry = asAuditEntry(audit);
  return entry && { audit: entry };
}

function asLedger(value: readonly unknown[]): LedgerRow | undefined {
  const [key, ...numbers] = value;
  if (typeof key !== 'string' || subjectOf(key) === undefined || numbers.length !== 7) return undefined;
  if (!numbers.every((number) => Number.isFinite(number))) return undefined;
  const [strikes, struckMs, watch, observe, enforce, pardonMs, forgetMs] = numbers as number[];
  const seen = [watch!, observe!, enforce!] as const;
  return [key, { strikes: strikes!, struckMs: struckMs!, seen, pardonMs: pardonMs! }, forgetMs!];
}

/** The value in the text of a line, where it is one. */
export const bookLineIn = (text: string): BookLine | undefined => asBookLine(parsed(text));

/** Those from this number on, in order; none where there is no folder. */
export async function journalsFrom(path: string, first: number): Promise<readonly string[]> {
  const names = await readdir(dirname(path)).catch(() => []);
  const numbers = numbersIn(names, path).filter((number) => number >= first);
  return numbers.sort((a, b) => a - b).map((number) => journalPath(path, number));
}

async function removeBefore(path: string, before: number): Promise<void> {
  const numbers = numbersIn(await readdir(dirname(path)), path).filter((number) => number < before);
  await Promise.all(numbers.map((number) => rm(journalPath(path, number), { force: true })));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function numbersIn(names: readonly string[], path: string): number[] {
  const start = `${basename(path)}.journal-`;
  return names
    .filter((name) => name.startsWith(start))
    .map((name) => Number(name.slice(start.length)))
    .filter((number) => Number.isSafeInteger(number) && number > 0);
}
