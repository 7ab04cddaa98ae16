import RE2 from 're2';
import t from 'tap';
import { ruleOf } from './fixtures/requests.js';
import { createRuleSet, widen } from './sets.js';

const rule = (id: string, ...patterns: string[]) => ruleOf({ id, class: 'x', severity: 1, patterns });

t.test('a set names the rules that may match, one value a line', (t) => {
  const set = createRuleSet([
    rule('A-1', 'foo', '^bar$'),
    rule('A-2', String.raw`\Abaz\z`),
    rule('A-3', 'é|<script'),
  ]);
  t.same(set.match('nothing'), []);
  t.same(set.match('x\nBAR\ny'), [0]);
  t.same(set.match('x\nbaz\nfoo').toSorted(), [0, 1]);
  t.same(set.match('caf\u00e9'), [2], 'characters above ASCII are mapped to UTF-8');
  t.equal(set.size, 4);
  t.end();
});

t.test('a set that outgrows its memory is split and still finds everything', (t) => {
  // Each pattern remembers the last characters, so that the automaton has a state for every history.
  const rules = Array.from({ length: 60 }, (_, n) =>
    rule(`B-${n}`, `a${'[ab]'.repeat(14 + (n % 12))}[abx]z${n}c`),
  );
  const set = createRuleSet(rules);
  let seed = 1;
  const noise = Array.from(
    { length: 120_000 },
    () => 'ab'[(seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) >> 30],
  ).join('');
  for (const n of [0, 29, 59]) {
    t.ok(set.match(`${noise}a${'b'.repeat(14 + (n % 12))}xz${n}c${noise}`).includes(n), `rule ${n}`);
  }
  t.end();
});

t.test('counted repeats are widened, so that what the rule matches stays in', (t) => {
  const cases: [string, string][] = [
    ['a.{0,100}b', 'a.*b'],
    ['a.{2,}b', 'a.+b'],
    ['a{2}', 'a{2}'],
    ['a{2,3}', 'a{2,3}'],
    ['a{9}', 'a+'],
    [String.raw`\x{2713}[{5}]\{9}`, String.raw`\x{2713}[{5}]\{9}`],
    [String.raw`\Aa\\z\z`, String.raw`^a\\z$`],
    ['[]{9}]{9}', '[]{9}]+'],
  ];
  for (const [pattern, wanted] of cases) t.equal(widen(pattern), wanted, pattern);
  t.end();
});

t.test('a set whose halves run out of memory too asks every pattern of that same text', (t) => {
  const rules = Array.from({ length: 20 }, (_, n) => rule(`C-${n}`, `^c${n}$`));
  // More than three patterns at once are too many for its memory, as found out while it reads.
  const compile = (patterns: readonly string[]) => {
    const real = new RE2.Set([...patterns], 'ismu');
    return {
      match: (text: Parameters<typeof real.match>[0]) => {
        if (patterns.length > 3) throw new Error('out of memory');
        return real.match(text);
      },
    };
  };
  const missed = rules.flatMap((_, n) => {
    // A fresh set each time: the text that makes it split is the one that must not slip through.
    const set = createRuleSet(rules, { compile });
    return set.match(`c${n}`).includes(n) && set.match(`c${n}`).includes(n) ? [] : [n];
  });
  t.strictSame(missed, []);
  let overflows = 0;
  const set = createRuleSet(rules, { compile, onOverflow: () => void overflows++ });
  t.strictSame(
    set.match(rules.map((_, n) => `c${n}`).join('\n')).toSorted((a, b) => a - b),
    rules.map((_, n) => n),
  );
  t.equal(overflows, 7, 'each split is counted');
  set.match('c1');
  t.equal(overflows, 7, 'the split is for good');
  t.end();
});

t.test('a set that cannot even be compiled whole is made of halves', (t) => {
  const rules = Array.from({ length: 9 }, (_, n) => rule(`D-${n}`, `^d${n}$`));
  const compile = (patterns: readonly string[]) => {
    if (patterns.length > 2) throw new Error('pattern too large');
    return new RE2.Set([...patterns], 'ismu');
  };
  const set = createRuleSet(rules, { compile });
  t.strictSame(set.match('d0\nd4\nd8').toSorted(), [0, 4, 8]);
  t.end();
});
