/**
 * A list of addresses and networks, one a line; `#` and `;` start comments, CRLF and duplicates do no harm.
 * Bad lines and those a filter turns down are counted and reported once, with the first few by line number.
 */
import { parseNetwork } from '../core/address.js';
import type { Network } from '../core/address.js';
import { createCidrSet } from '../structures/cidr-set.js';
import type { CidrSet } from '../structures/cidr-set.js';
import { eachLine, implausible } from './lines.js';
import type { FeedFile, Version } from './source.js';

const ENTRIES_MAX = 2_000_000;
const SAMPLES_MAX = 5;

/** Turns a network into what is stored, or says in a few words why it is skipped. */
export type Admit = (network: Network) => Network | string;

type Tally = { lines: number; bad: number; skipped: number; samples: string[] };

/**
 * Throws FEED_UNREADABLE, or FEED_IMPLAUSIBLE for an empty file (unless it may be), HTML, or a file in which
 * no line can be read.
 */
export async function readNetworkList(file: FeedFile, admit: Admit): Promise<Version<CidrSet>> {
  const set = createCidrSet();
  const tally: Tally = { lines: 0, bad: 0, skipped: 0, samples: [] };
  await eachLine(file, (line, number) => {
    if (line.trim() !== '') tally.lines++;
    const problem = takeLine(line, set, admit, tally);
    if (problem === undefined || tally.samples.length >= SAMPLES_MAX) return;
    tally.samples.push(`line ${number}: ${problem}`);
  });
  if (set.size === 0 && tally.bad > 0 && tally.skipped === 0) {
    throw implausible(file, `none of its lines can be read (${tally.samples.join('; ')})`);
  }
  const warning = describe(tally);
  const isBlank = tally.lines === 0;
  return { value: set, entries: set.size, isBlank, ...(warning === undefined ? {} : { warning }) };
}

function takeLine(line: string, set: CidrSet, admit: Admit, tally: Tally): string | undefined {
  const text = entryOf(line);
  if (text === '') return undefined;
  const network = parseNetwork(text);
  if (network === undefined) {
    tally.bad++;
    return `${JSON.stringify(text.slice(0, 60))} is no address or network${hint(text)}`;
  }
  const admitted = set.size >= ENTRIES_MAX ? `more than ${ENTRIES_MAX} entries` : admit(network);
  if (typeof admitted === 'string') {
    tally.skipped++;
    return `${text} skipped: ${admitted}`;
  }
  set.add(admitted);
  return undefined;
}

function entryOf(line: string): string {
  let end = line.length;
  for (let at = 0; at < line.length; at++) {
    const code = line.charCodeAt(at);
    if (code === 35 || code === 59) {
      end = at;
      break;
    }
  }
  return line.slice(0, end).trim();
}

function hint(text: string): string {
  return /^[\d.]+\s*-\s*[\d.]+$/.test(text) ? ' (write a range as networks, such as 192.0.2.0/30)' : '';
}

function describe({ lines, bad, skipped, samples }: Tally): string | undefined {
  if (lines === 0) return 'the file is empty; nobody is on this list';
  if (bad + skipped === 0) return undefined;
  return `${bad} bad line(s), ${skipped} skipped: ${samples.join('; ')}`;
}
