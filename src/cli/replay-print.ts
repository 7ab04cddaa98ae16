/** What a replay found, in words: per pattern what would have been banned when and why. */
import { subjectKey, type Ban } from '../controls/ban.js';
import { cleanText } from '../core/text.js';
import type { Replayed } from '../roles/replay.js';
import { inWords } from './limits-print.js';

const SUBJECTS_SHOWN = 10;
const HELD_SHOWN = 50;
const TEXT_MAX = 500;

/** Texts may come from attackers: nothing in them reaches the terminal but what is plain. */
export function printReplay(replayed: Replayed): string {
  const lines = [...summary(replayed), ''];
  const groups = patternsOf(replayed.bans);
  if (groups.size === 0) lines.push('Nobody would have been banned.');
  for (const bans of groups.values()) lines.push(...patternLines(bans));
  if (replayed.held.length > 0) {
    lines.push('', `Held back: ${replayed.held.length}`);
    for (const { timeMs, subject, reason } of replayed.held.slice(0, HELD_SHOWN))
      lines.push(`  ${iso(timeMs)}  ${subject}: ${reason}`);
    if (replayed.held.length > HELD_SHOWN)
      lines.push(`  and ${replayed.held.length - HELD_SHOWN} more (--json)`);
  }
  lines.push('', 'Nothing was written. Crawlers were not asked to prove themselves.');
  return `${lines.map((line) => cleanText(line, TEXT_MAX)).join('\n')}\n`;
}

function summary({ source, lines, notes, outside, cut, stats, poison, firstMs, lastMs }: Replayed): string[] {
  const { fates, rejected } = stats;
  const events = Object.values(fates).reduce((sum, count) => sum + count, 0);
  const told = [`${source}: ${lines} lines, ${events} events`];
  if (firstMs !== undefined && lastMs !== undefined)
    told[0] += ` from ${iso(firstMs)} to ${iso(lastMs)} (${inWords(lastMs - firstMs)})`;
  if (cut !== undefined) told.push(`  WARNING: not read to its end: ${cut}`);
  told.push(`  judged ${fates.judged}; left out: ${counts({ ...fates, judged: 0, outside })}`);
  if (notes > 0) told.push(`  operational lines: ${notes}`);
  const bad = counts(rejected);
  if (bad !== 'none') told.push(`  without a usable event: ${bad}`);
  for (const { line, cause, text } of poison) told.push(`    line ${line}: ${cause}  ${text}`);
  for (const { name, dropped, failures } of stats.detectors) {
    if (dropped > 0) told.push(`  ${name}: blind at times, ${dropped} entries were given up or found no room`);
    if (failures > 0) told.push(`  ${name}: failed ${failures} times`);
  }
  return told;
}

function counts(of: Readonly<Record<string, number>>): string {
  const some = Object.entries(of).filter(([, count]) => count > 0);
  return some.length === 0 ? 'none' : some.map(([name, count]) => `${name} ${count}`).join(', ');
}

/** By detector, pattern and mode, in the order in which the first would have been made. */
function patternsOf(bans: readonly Ban[]): Map<string, Ban[]> {
  const groups = new Map<string, Ban[]>();
  for (const ban of bans) {
    const key = JSON.stringify([ban.mode, ban.evidence?.detector, ban.evidence?.pattern]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [ban]);
    else group.push(ban);
  }
  return groups;
}

const MODES: Readonly<Record<Ban['mode'], string>> = {
  enforce: 'would have been banned',
  observe: 'would have been banned in observe mode',
  watch: 'would have had their observed score raised',
};

function patternLines(bans: readonly Ban[]): string[] {
  const first = bans[0]!;
  const last = bans.at(-1)!;
  const { detector = '', pattern = '' } = first.evidence ?? {};
  const subjects = new Set(bans.map(({ subject }) => subjectKey(subject)));
  const lines = [
    `${detector}: ${pattern}`,
    `  ${subjects.size} ${MODES[first.mode]}, first at ${iso(first.sinceMs)}, last at ${iso(last.sinceMs)}`,
    `  ${last.reason} (confidence ${(last.evidence?.confidence ?? 0).toFixed(2)})`,
  ];
  for (const { subject, sinceMs, untilMs, evidence } of bans.slice(0, SUBJECTS_SHOWN)) {
    const { count = 0, requestIds = [] } = evidence ?? {};
    const request = requestIds[0] === undefined ? '' : `, such as ${requestIds[0]}`;
    lines.push(
      `    ${iso(sinceMs)} for ${inWords(untilMs - sinceMs)}  ${subjectKey(subject)}  ${count} requests${request}`,
    );
  }
  if (bans.length > SUBJECTS_SHOWN) lines.push(`    and ${bans.length - SUBJECTS_SHOWN} more (--json)`);
  return lines;
}

const iso = (ms: number): string => new Date(ms).toISOString();
