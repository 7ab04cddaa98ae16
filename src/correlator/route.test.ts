import fc from 'fast-check';
import t from 'tap';
import { createRoute, isAsset, templateOf } from './route.js';

const CASES: readonly (readonly [path: string, template: string])[] = [
  ['/', '/'],
  ['', '/'],
  ['/login', '/login'],
  ['/Login/', '/login'],
  ['/api/v2/users', '/api/v2/users'],
  ['/item/4711', '/item/:n'],
  ['//item//4711/', '/item/:n'],
  ['/item/4711/reviews', '/item/:n/reviews'],
  ['/item-4711.html', '/item-:n.html'],
  ['/page/2', '/page/:n'],
  ['/u/123e4567-e89b-12d3-a456-426614174000/photo', '/u/:uuid/photo'],
  ['/blog/2026-11-30', '/blog/:date'],
  ['/blog/2026/11/30/some-title', '/blog/:n/:n/:n/some-title'],
  ['/p/red-shoes-for-large-feet-4711', '/p/:slug'],
  ['/commit/9fceb02d0ae598e95dc970b74767f19372d61af8', '/commit/:hex'],
  ['/assets/app.3f2a1b9c.js', '/assets/app.:hex.js'],
  ['/s/01j9zq3k7w8m2n5p6q', '/s/:id'],
  ['/search/%e6%97%a5%e6%9c%ac%e8%aa%9e', '/search/:id'],
  ['/internationalization', '/internationalization'],
  ['/a/b/c/d/e/f/g/h/i/j', '/a/b/c/d/e/f/g/h/*'],
  [`/${'x'.repeat(200)}`, '/:id'],
  [`/${'é'.repeat(30)}`, `/${'é'.repeat(30)}`],
];

t.test('what names one thing becomes a placeholder, what names a kind stays', async (test) => {
  for (const [path, template] of CASES) test.equal(templateOf(path), template, path);
});

t.test('a remembered template is the same as a new one, and all are bounded', async (test) => {
  const route = createRoute();
  fc.assert(
    fc.property(fc.string({ maxLength: 256 }), (path) => {
      const template = route(path);
      return template === templateOf(path) && template === route(path) && template.length <= 9 * 72;
    }),
  );
  test.pass();
});

t.test('assets are told by their ending', async (test) => {
  for (const path of ['/a.css', '/img/1.WEBP', '/x/app.3f2a.js', '/v/seg-1.m4s'])
    test.ok(isAsset(path), path);
  for (const path of ['/', '/a', '/a.html', '/v1.2/users', '/feed.json', '/a.css/b', '/a.']) {
    test.notOk(isAsset(path), path);
  }
});
