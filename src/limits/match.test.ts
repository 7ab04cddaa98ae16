import t from 'tap';
import { foldPath } from '../core/fold-path.js';
import { compileMatch } from './match.js';

const matches = compileMatch({ path: '/api/login', method: 'POST' });
const target = (path: string) => ({
  site: 'a',
  method: 'POST',
  host: 'a.test',
  path: foldPath(path),
  headers: new Map<string, string>(),
});

t.test('spellings that origins read as the same path are counted as the same path', async (test) => {
  const same = [
    '/api/login',
    '/API/Login/',
    '/api/login;jsessionid=1',
    '/api/;x/login',
    '/;x/api/login',
    '/api/;/login',
    '/api/a;b/..;c/login',
    '/api/login.',
    '/api/login ',
    '/api/login\0',
    '/api./login',
    '/api/login.json',
    '/api/login.json;a',
  ];
  for (const path of same) test.ok(matches(target(path)), JSON.stringify(path));
});

t.test('other paths stay other paths', async (test) => {
  const others = ['/api/login.js', '/api/loginx', '/api', '/login', '/api/login/x', '/api/v1.2/login', '/'];
  for (const path of others) test.notOk(matches(target(path)), path);
  test.equal(foldPath('/'), '/');
  test.equal(foldPath('/;x'), '/');
  test.equal(foldPath('/api/**'), '/api/**');
});
