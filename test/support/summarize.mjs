// Reads TAP, prints each file's result, failures and skips with their reasons, then `N passed, N failed, N skipped`.
import { readFileSync } from 'node:fs';

const counts = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
const skips = [];
const path = [];
let bailed = false;

for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  if (/^\s*Bail out!/.test(line)) {
    bailed = true;
    failures.push(line.trim());
    continue;
  }
  const subtest = /^( *)# Subtest: (.*)$/.exec(line);
  if (subtest) {
    path.length = subtest[1].length / 4;
    path.push(subtest[2]);
    continue;
  }
  const point = /^( *)(not ok|ok) \d+(?: - (.*))?$/.exec(line);
  if (!point) continue;
  const depth = point[1].length / 4;
  const title = point[3] ?? '';
  const name = [...path.slice(0, depth), title.replace(/ # time=.*$/, '').replace(/ \{$/, '')].join(' › ');
  const skip = /# (?:SKIP|TODO)\b ?(.*)$/i.exec(title);
  // A line that closes a subtest repeats its assertions; only a failure without failed children counts by itself.
  const closes = /# time=/.test(title) || /\{$/.test(title) || path.length > depth;
  if (skip) {
    counts.skipped += 1;
    skips.push(name);
  } else if (point[2] === 'not ok') {
    if (!closes || !failures.some((failure) => failure.startsWith(name.split(' › ').slice(0, depth + 1).join(' › ')))) {
      counts.failed += 1;
      failures.push(name);
    }
  } else if (!closes) counts.passed += 1;
  if (path.length > depth) path.length = depth;
}

if (skips.length > 0) console.log(`skipped:\n${skips.map((skip) => `  - ${skip}`).join('\n')}`);
if (failures.length > 0) console.log(`failed:\n${failures.map((failure) => `  - ${failure}`).join('\n')}`);
if (bailed && counts.failed === 0) counts.failed = 1;
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
