import t from 'tap';
import { withPart } from './results.js';

t.test('a part is replaced where it stands, and what is around it stays', (test) => {
  const before = '# Figures\n\nby hand\n<!-- a -->\nold\n<!-- /a -->\nmore by hand\n<!-- b -->\nb\n<!-- /b -->\n';
  test.equal(withPart(before, 'a', '\nnew $1\n'), before.replace('old', () => 'new $1'));
  test.equal(withPart(withPart(before, 'a', 'x'), 'a', 'old'), before, 'and again');
  test.end();
});

t.test('a part that is not there yet comes at the end', (test) => {
  test.equal(withPart('# Figures\n', 'c', 'c'), '# Figures\n\n<!-- c -->\nc\n<!-- /c -->\n');
  test.end();
});
