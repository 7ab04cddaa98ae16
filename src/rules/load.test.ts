import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Fault } from '../core/errors.js';
import {
  compileRule,
  createRuleCache,
  createRuleEngine,
  loadRuleEngine,
  loadRules,
  rulesSection,
} from './index.js';

const GOOD = 'id: XSS-1\ntitle: a script\nclass: xss\nseverity: 3\npattern: "<script"\n';

t.test('a folder is read whole, in order of paths', (t) => {
  const dir = t.testdir({
    sqli: { 'b.yaml': GOOD.replace('XSS-1', 'SQLI-2') },
    xss: { 'a.yaml': GOOD, 'notes.md': '-' },
  });
  t.same(
    loadRules(dir).map(({ id }) => id),
    ['SQLI-2', 'XSS-1'],
  );
  const engine = createRuleEngine(rulesSection.parse({ native: 'xss', custom: ['sqli'] }), { baseDir: dir });
  t.equal(engine.ruleCount, 2);
  t.end();
});

t.test('every problem of a folder is reported at once, with file and id', (t) => {
  const dir = t.testdir({
    'a.yaml': GOOD,
    'b.yaml': GOOD,
    'c.yaml': 'id: [',
    'd.yaml': GOOD.replace('XSS-1', 'XSS-4').replace('"<script"', "'a(?!b)'"),
    'e.yaml': GOOD.replace('XSS-1', 'XSS-5').replace('severity: 3', 'severity: 9'),
  });
  try {
    loadRules(dir);
    t.fail('must throw');
  } catch (error) {
    t.ok(error instanceof Fault && error.code === 'RULES_INVALID');
    const lines = String((error as Error).message).split('\n');
    t.equal(lines.length, 5);
    for (const [index, part] of [
      'b.yaml (XSS-1): the id is taken by a.yaml',
      'c.yaml',
      'd.yaml (XSS-4): pattern: look-around at character 2',
      'e.yaml (XSS-5): severity',
    ].entries()) {
      t.match(lines[index === 0 ? 1 : index + 1], part);
    }
  }
  t.throws(() => loadRules(join(dir, 'missing')), { code: 'RULES_INVALID' });
  t.end();
});

t.test('an exclusion that names no rule is refused, with the nearest there is', (t) => {
  const dir = t.testdir({ 'a.yaml': GOOD });
  const load = (rule: string) =>
    createRuleEngine(rulesSection.parse({ native: '.', exclusions: [{ rule }] }), { baseDir: dir });
  const says = /rules\.exclusions\[0\]\.rule: no rule is named "XS-1"; did you mean "XSS-1"/;
  t.throws(() => load('XS-1'), { code: 'RULES_INVALID', message: says });
  t.throws(() => load('SQLI-*'), { code: 'RULES_INVALID' });
  for (const rule of ['XSS-1', 'XSS-*', '*', 'NUL-BYTE']) t.doesNotThrow(() => load(rule), rule);
  t.end();
});

t.test('a reload compiles only what has changed', async (t) => {
  const dir = t.testdir({
    'a.yaml': GOOD,
    'b.yaml': `${GOOD.replace('XSS-1', 'XSS-2')}targets: [path]\n`,
  });
  const cache = createRuleCache();
  const load = () => loadRuleEngine(rulesSection.parse({ native: '.' }), { baseDir: dir, cache });
  await load();
  const first = { ...cache.kinds };
  const unchanged = await load();
  t.equal(unchanged.ruleCount, 2);
  t.equal(cache.kinds.text?.set, first.text?.set, 'nothing where the files are the same');
  writeFileSync(join(dir, 'b.yaml'), `${GOOD.replace('XSS-1', 'XSS-3')}targets: [path]\n`);
  await load();
  t.equal(cache.kinds.text?.set, first.text?.set, 'the sets that the changed rule is not in stay');
  t.not(cache.kinds.path?.set, first.path?.set, 'the others are made anew');
  t.same(cache.kinds.path?.rules.map(({ id }) => id), ['XSS-3']);
  writeFileSync(join(dir, 'b.yaml'), 'id: [');
  await t.rejects(load(), { code: 'RULES_INVALID' });
  t.equal(cache.files.size, 2, 'what is broken leaves what is known as it is');
});

const refused: [string, Record<string, unknown>, RegExp][] = [
  ['look-ahead', { pattern: 'x(?=a)' }, /pattern: look-around at character 2/],
  ['look-behind', { pattern: 'x(?<!a)' }, /pattern: look-around at character 2/],
  ['a back-reference', { patterns: ['ok', String.raw`(a)\1`] }, /patterns\.1: back-reference at character 4/],
  ['a repeat too large', { pattern: '(a{1,1000}){1,1000}' }, /pattern: /],
  ['a pattern and patterns', { pattern: 'a', patterns: ['b'] }, /not both/],
  ['no pattern', {}, /one of/],
  ['an unknown key', { pattern: 'a', taget: 'x' }, /taget/],
  ['an unknown target', { pattern: 'a', targets: ['body'] }, /targets/],
  ['an unknown transformation', { pattern: 'a', transformations: ['rot13'] }, /transformations/],
];

t.test('refused at load by name and position', (t) => {
  for (const [name, more, wanted] of refused) {
    const problems: string[] = [];
    t.equal(
      compileRule({ id: 'A-1', title: 'x', class: 'x', severity: 1, ...more }, 'f.yaml', problems),
      undefined,
      name,
    );
    t.match(problems.join('\n'), wanted, name);
    t.match(problems[0], 'f.yaml (A-1)', name);
  }
  t.end();
});

t.test('what only looks like look-around passes', (t) => {
  for (const pattern of [
    String.raw`\(?=a`,
    '[(?=]a',
    String.raw`\\1`,
    String.raw`[\]]\d`,
    '(?:a)',
    '(?P<n>a)',
    '[]a(?=]',
  ]) {
    const problems: string[] = [];
    compileRule({ id: 'A-1', title: 'x', class: 'x', severity: 1, pattern }, 'f.yaml', problems);
    t.same(problems, [], pattern);
  }
  t.end();
});

t.test('5 000 rules load and none is skipped', (t) => {
  const dir = t.testdir({});
  mkdirSync(join(dir, 'many'));
  for (let n = 0; n < 5000; n++) {
    writeFileSync(
      join(dir, 'many', `${n}.yaml`),
      `id: M-${n}\ntitle: t\nclass: x\nseverity: 1\npattern: 'word${n}\\b'\n`,
    );
  }
  t.equal(loadRules(join(dir, 'many')).length, 5000);
  t.end();
});
