/** Values with more layers or forms than are judged: they are told, counted and held against the request. */
import t from 'tap';
import { factsOf, ids, RULES } from './fixtures/requests.js';
import { createEngineOf, noRuleCounts, rulesSection } from './index.js';
import { variantsOf } from './variants.js';

const BOUNDS = { decodeDepth: 5, variantsMax: 32 };
const layers = (text: string, count: number): string =>
  count === 0 ? text : layers(encodeURIComponent(text), count - 1);

t.test('layers up to the depth are taken off, and one more is told', (test) => {
  for (const count of [0, 1, 2, 4, 5]) {
    const found = variantsOf(layers("' or 1=1", count), 'none', BOUNDS);
    test.notOk(found.cut, `${count} layers`);
    test.ok(found.list.some(({ text }) => text.includes("' or 1=1")), `${count} layers are read`);
  }
  for (const count of [6, 9]) test.ok(variantsOf(layers('"', count), 'none', BOUNDS).cut, `${count} layers`);
  test.end();
});

t.test('forms beyond the maximum are told, and forms that are there already are not', (test) => {
  const few = { decodeDepth: 5, variantsMax: 4 };
  const value = `a%2527/*x*/'b'+'c'\\\\d//e`;
  test.ok(variantsOf(value, 'none', few).cut);
  test.ok(variantsOf(value, 'none', few).list.length <= 4);
  test.notOk(variantsOf(value, 'none', BOUNDS).cut);
  test.notOk(variantsOf("O'Brien & sons", 'form', few).cut);
  test.end();
});

t.test('what nobody could judge does not pass, and is counted', (test) => {
  const counts = noRuleCounts();
  const engine = createEngineOf(RULES, rulesSection.parse({}), counts);
  const judged = engine.inspectHead(factsOf({ target: `/?q=${layers("' or 1=1 --", 9)}` }));
  test.ok(ids(judged).includes('FORMS-CUT'), ids(judged).join());
  test.equal(judged.find(({ id }) => id === 'FORMS-CUT')?.severity, 4);
  test.equal(counts.formsCut, 1);
  engine.inspectHead(factsOf({ target: '/?q=plain%20text&r=%2525' }));
  test.equal(counts.formsCut, 1, 'what was judged whole is not counted');
  test.end();
});

t.test('a pad that changes under every decoder hides nothing', (test) => {
  const payload = "1'/**/or/**/1=1-- ";
  const pad = `${layers('"', 5)} &${'amp;'.repeat(6)}lt; ${'\\\\'.repeat(32)}n \\uff05 \\\\uff05 "a"+"b" //./x y^`;
  for (const text of [payload + pad, pad + payload]) {
    const found = variantsOf(text, 'none', BOUNDS);
    test.ok(found.cut || found.list.some((form) => form.text.includes("1' or 1=1")));
    const few = variantsOf(text, 'none', { ...BOUNDS, variantsMax: 64 });
    test.ok(
      few.list.some((form) => form.text.includes("1' or 1=1")),
      'the plain text and the decoded one get their views first',
    );
  }
  test.end();
});
