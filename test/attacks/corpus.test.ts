import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createEngineOf, loadRules, rulesSection, type Rule } from '../../src/rules/index.js';
import { createContentJudge, explain, judgeExample, type RecordedRequest } from './request.js';

type Named = RecordedRequest & Readonly<{ name: string; family?: string }>;

const HERE = join(process.cwd(), 'test', 'attacks');
const judge = createContentJudge();
const rules = loadRules(join(process.cwd(), 'rules', 'native'));

function read(path: string): Named[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Named);
}

async function wrong(requests: readonly Named[], refused: boolean): Promise<string[]> {
  const list: string[] = [];
  for (const request of requests) {
    const verdict = await judge(request);
    if (verdict.refused !== refused) list.push(`${request.name} — ${explain(verdict)}`);
  }
  return list;
}

for (const file of readdirSync(join(HERE, 'benign')).filter((name) => name.endsWith('.jsonl'))) {
  t.test(`ordinary requests of ${file} pass`, async (t) => {
    t.strictSame(await wrong(read(join(HERE, 'benign', file)), false), []);
  });
}

t.test('the ordinary set is large enough to mean something', async (t) => {
  const files = readdirSync(join(HERE, 'benign'));
  const count = files.reduce((sum, file) => sum + read(join(HERE, 'benign', file)).length, 0);
  t.ok(count >= 300, `${count} requests`);
});

const canaries = read(join(HERE, 'canaries.jsonl'));

for (const family of new Set(canaries.map((canary) => canary.family))) {
  t.test(`canaries of ${family} are refused in every place and encoding`, async (t) => {
    t.strictSame(
      await wrong(
        canaries.filter((canary) => canary.family === family),
        true,
      ),
      [],
    );
  });
}

const everyday: [string, RecordedRequest][] = [
  ['a bare percent sign', { method: 'GET', url: '/?share=91.4%', headers: {} }],
  ['brackets', { method: 'GET', url: '/?t=Keep+left+(2+miles)+then+stop', headers: {} }],
  ['SQL words', { method: 'GET', url: '/?q=Select+the+union+option+from+the+drop+table+list', headers: {} }],
  ['a quote and an exclamation mark', { method: 'GET', url: "/?note='!%22", headers: {} }],
  ['names with quotes and umlauts', { method: 'GET', url: "/?name=O'Brien%20%26%20S%C3%B6hne", headers: {} }],
];

t.test('everyday text stays below half of the blocking score', async (t) => {
  for (const [name, request] of everyday) {
    const verdict = await judge({ ...request, headers: { 'User-Agent': 'Mozilla/5.0', Accept: '*/*' } });
    t.ok(verdict.score < 40, `${name}: ${explain(verdict)}`);
  }
});

async function misjudged(rule: Rule): Promise<string[]> {
  const engine = createEngineOf([rule], rulesSection.parse({}));
  const check = async (expected: boolean, kind: 'match' | 'pass'): Promise<string[]> => {
    const bad: string[] = [];
    for (const example of rule.examples[kind]) {
      const matched = await judgeExample(engine, rule, example);
      if (matched !== expected) bad.push(`${rule.id} ${kind}: ${example.value}`);
    }
    return bad;
  };
  return [...(await check(true, 'match')), ...(await check(false, 'pass'))];
}

t.test('every rule holds its own examples', async (t) => {
  t.ok(rules.length >= 60);
  for (const rule of rules) t.strictSame(await misjudged(rule), [], rule.id);
});
