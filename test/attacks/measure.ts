/**
 * Judges two recorded sets, ordinary requests and attacks, and prints how many are refused.
 * Use: `node dist/test/attacks/measure.js CORPUS_DIR [--details FILE]`; misses and false alarms go into FILE.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { createContentJudge, explain, type RecordedRequest } from './request.js';

type Recorded = RecordedRequest & Readonly<{ site?: string; family?: string }>;
type Tally = { total: number; refused: number };

const judge = createContentJudge();
const details: string[] = [];

function readSet(path: string): Recorded[] {
  const lines = gunzipSync(readFileSync(path)).toString('utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Recorded);
}

async function tally(
  requests: readonly Recorded[],
  wrong: (refused: boolean) => boolean,
): Promise<Map<string, Tally>> {
  const groups = new Map<string, Tally>();
  for (const request of requests) {
    const group = request.family ?? request.site ?? 'all';
    const count = groups.get(group) ?? { total: 0, refused: 0 };
    groups.set(group, count);
    const verdict = await judge(request);
    count.total++;
    if (verdict.refused) count.refused++;
    if (wrong(verdict.refused)) details.push(describe(group, request, explain(verdict)));
  }
  return groups;
}

function describe(group: string, { method, url, body = '' }: Recorded, reason: string): string {
  return `${group}\t${method} ${url.slice(0, 400)}\t${JSON.stringify(body.slice(0, 400))}\t${reason}`;
}

const share = ({ refused, total }: Tally): string =>
  `${refused} of ${total} (${((100 * refused) / Math.max(1, total)).toFixed(2)} %)`;
const print = (line: string): boolean => process.stdout.write(`${line}\n`);

function sum(groups: ReadonlyMap<string, Tally>): Tally {
  const counts = [...groups.values()];
  return {
    total: counts.reduce((all, { total }) => all + total, 0),
    refused: counts.reduce((all, { refused }) => all + refused, 0),
  };
}

async function measure(dir: string, detailsFile: string | undefined): Promise<void> {
  const started = performance.now();
  const benign = await tally(readSet(join(dir, 'benign.jsonl.gz')), (refused) => refused);
  const attacks = await tally(readSet(join(dir, 'attacks.jsonl.gz')), (refused) => !refused);
  const ordinary = sum(benign);
  print(`ordinary requests refused: ${share(ordinary)}`);
  for (const [site, count] of benign) if (count.refused > 0) print(`  ${site}: ${share(count)}`);
  print('attacks refused');
  for (const [family, count] of attacks) print(`  ${family}: ${share(count)}`);
  const all = sum(attacks);
  const shares = [...attacks.values()].map(({ refused, total }) => (100 * refused) / total);
  const mean = shares.reduce((total, part) => total + part, 0) / Math.max(1, shares.length);
  print(`  all: ${share(all)}, mean over families ${mean.toFixed(2)} %`);
  print(`judged in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  if (detailsFile !== undefined) writeFileSync(detailsFile, `${details.join('\n')}\n`);
}

const [dir, flag, file] = process.argv.slice(2);
if (dir === undefined) {
  process.stderr.write('usage: measure CORPUS_DIR [--details FILE]\n');
  process.exitCode = 2;
} else await measure(dir, flag === '--details' ? file : undefined);
