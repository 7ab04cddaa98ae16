import fc from 'fast-check';
import t from 'tap';
import type { IdentityName } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import { identitySection } from './config.js';
import { createIdentities, randomHashKey } from './index.js';

function facts(headers: Record<string, string> = {}): RequestFacts {
  return {
    requestId: 'r',
    receivedAtMs: 0,
    site: 's',
    unknownHost: false,
    method: 'POST',
    target: '/a?b',
    path: '/a',
    query: 'b',
    cleanPath: '/a',
    httpVersion: '1.1',
    scheme: 'http',
    host: 'app.test',
    rawHeaders: [],
    headers: new Map(Object.entries(headers)),
    client: {
      ip: '2001:db8::1',
      key: '2001:db8::/64',
      wideKey: '2001:db8::/56',
      peer: '2001:db8::1',
      viaProxy: false,
    },
    hasBody: true,
    contentLength: 1,
  };
}

const identities = createIdentities(identitySection.parse({}), 'key');
const read = (
  name: IdentityName,
  headers: Record<string, string>,
  body?: Record<string, string>,
): string | undefined =>
  identities.read(name, facts(headers), body === undefined ? undefined : (field) => body[field]);

t.test('address, path and host are read as they are', async (t) => {
  t.equal(read('ip', {}), '2001:db8::/64');
  t.equal(read('wideIp', {}), '2001:db8::/56');
  t.equal(read('path', {}), '/a');
  t.equal(read('host', {}), 'app.test');
});

t.test('a session is the named cookie, wherever it stands, and no other', async (t) => {
  const wanted = read('session', { cookie: 'sid=abc' });
  t.match(wanted, /^[\w-]{22}$/);
  for (const cookie of [
    'a=1; sid=abc',
    'sid=abc; sid=other',
    'xsid=no; sid=abc;b=2',
    'a=1;sid= abc ',
    'a=sid=no; sid=abc',
    'sid="abc"',
    'sid=%61b%63',
    'a=1; sid =abc',
    'a=1; sid\t= "%61bc"',
  ]) {
    t.equal(read('session', { cookie }), wanted, cookie);
  }
  for (const cookie of ['xsid=abc', 'sid=', 'SID=abc', 'a=b sid=abc', ''])
    t.equal(read('session', { cookie }), undefined, cookie);
});

t.test('further cookies of the name are known too, a few of them, once each', async (t) => {
  const others = (cookie: string) => identities.others?.('session', facts({ cookie }), undefined);
  const abc = read('session', { cookie: 'sid=abc' });
  t.same(others('sid=abc'), []);
  t.same(others('sid=x; sid="abc"'), [abc]);
  t.same(others('sid=abc; sid="abc"; sid=abc'), []);
  t.equal(others('sid=1;'.repeat(2) + 'sid=2;sid=3;sid=4;sid=5')?.length, 2);
});

t.test('a session that the origin sets is the one that comes back', async (t) => {
  const wanted = read('session', { cookie: 'sid=abc' });
  for (const set of ['sid=abc', 'sid="abc"', 'sid=%61bc', 'sid=abc; Path=/; HttpOnly', 'sid= abc ;Max-Age=3600'])
    t.equal(identities.issued(set), wanted, set);
  const taken = ['sid=', 'sid=; Path=/', 'sid=abc; Max-Age=0', 'sid=abc; max-age=-1'];
  for (const set of ['other=abc', 'xsid=abc', ...taken])
    t.equal(identities.issued(set), undefined, set);
});

t.test('an API key is its header, an empty one is none', async (t) => {
  t.match(read('apiKey', { 'x-api-key': 'k1' }), /^[\w-]{22}$/);
  t.equal(read('apiKey', { 'x-api-key': ' k1 ' }), read('apiKey', { 'x-api-key': 'k1' }));
  t.equal(read('apiKey', { 'x-api-key': ' ' }), undefined);
});

t.test('a user comes from the body; case and outer space make no other user', async (t) => {
  const wanted = read('user', {}, { username: 'alice' });
  t.ok(wanted);
  t.equal(read('user', {}, { username: ' Alice ' }), wanted);
  t.equal(read('user', {}, { email: 'alice' }), wanted, 'the first field that is present');
  t.equal(read('user', {}, { other: 'alice' }), undefined);
  t.equal(read('user', {}), undefined);
  t.equal(identities.inBody('user'), true);
});

t.test('spellings that nobody sees, and other spellings of a number, make no other user', async (t) => {
  const same: [name: string, spelled: string[]][] = [
    ['alice', ['a\u200blice', 'alice\u0000', '\u00adalice', '\uff21lice', 'al\u0131ce', '\u202ealice']],
    ['stra\u00dfe', ['STRASSE', 'strasse', ' Stra\u00dfe\u200d ']],
    ['jos\u00e9', ['jose\u0301', 'JOS\u00c9']],
    ['49170123', ['49170123.0', '49170123.000', '+49170123', '049170123', '4.9170123e7', '491701230E-1']],
    ['0', ['-0', '0.0', '0e9', '000']],
    ['-12.5', ['-12.50', '-125e-1']],
  ];
  for (const [name, spelled] of same) {
    const wanted = read('user', {}, { username: name });
    t.ok(wanted);
    for (const other of spelled)
      t.equal(read('user', {}, { username: other }), wanted, JSON.stringify([name, other]));
  }
  const apart = ['1', '10', '100', '0.1', '1.5', '15', '-1', 'alice', 'alice1', '.', '-', 'e5'];
  apart.push('9007199254740993', '9007199254740992', '1e999999999');
  t.equal(new Set(apart.map((username) => read('user', {}, { username }))).size, apart.length);
  t.equal(read('user', {}, { username: ' \u200b\u0000 ' }), undefined, 'nothing to see is no user');
  const byHeader = createIdentities(identitySection.parse({ user: { header: 'X-User' } }), 'key');
  const bytes = Buffer.from('Jos\u00e9').toString('latin1');
  t.equal(
    byHeader.read('user', facts({ 'x-user': bytes }), undefined),
    read('user', {}, { username: 'jos\u00e9' }),
    'a header holds bytes',
  );
});

t.test('path and site: other spellings and other hosts make no other identity', async (t) => {
  const of = (name: IdentityName, more: object) =>
    identities.read(name, { ...facts(), ...more } as RequestFacts, undefined);
  for (const cleanPath of ['/A', '/a/', '/a;v=1', '/a.json', '/A.JSON;b', '/x/..;/a', '/a. '])
    t.equal(of('path', { cleanPath }), '/a', cleanPath);
  t.equal(of('path', { cleanPath: '/ab' }), '/ab');
  for (const host of ['x.app.test', 'y.app.test']) t.equal(of('site', { host }), 's');
});

t.test('several fields that may name the user all count', async (t) => {
  const all = (fields: Record<string, string>): readonly string[] =>
    identities.others?.('user', facts({}), (name) => fields[name]) ?? [];
  const wanted = read('user', {}, { username: 'victim' });
  t.same(all({ username: 'x', email: 'victim' }), [wanted]);
  t.same(all({ username: 'victim', email: ' Victim ' }), [], 'the same twice is one');
  t.same(all({ email: 'victim' }), []);
  t.same(identities.others?.('ip', facts({}), () => 'x'), []);
});

t.test('a user comes from a header or an unverified claim where so configured', async (t) => {
  const byHeader = createIdentities(identitySection.parse({ user: { header: 'X-User' } }), 'key');
  t.equal(byHeader.inBody('user'), false);
  const wanted = byHeader.read('user', facts({ 'x-user': 'alice' }), undefined);
  t.ok(wanted);
  const byClaim = createIdentities(identitySection.parse({ user: { jwtClaim: 'account.name' } }), 'key');
  const token = (payload: unknown): string =>
    `Bearer e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`;
  t.equal(
    byClaim.read('user', facts({ authorization: token({ account: { name: 'Alice' } }) }), undefined),
    wanted,
  );
  for (const authorization of [
    'Bearer a.b.c',
    'Bearer',
    'Basic abc',
    token(null),
    token({ account: 'x' }),
    token({ account: { name: {} } }),
  ]) {
    t.equal(byClaim.read('user', facts({ authorization }), undefined), undefined, authorization);
  }
});

t.test('hashes need the same key to agree, and do not show the secret', async (t) => {
  const other = createIdentities(identitySection.parse({}), 'other');
  const mine = read('apiKey', { 'x-api-key': 'secret' });
  t.not(other.read('apiKey', facts({ 'x-api-key': 'secret' }), undefined), mine);
  t.equal(
    createIdentities(identitySection.parse({}), 'key').read(
      'apiKey',
      facts({ 'x-api-key': 'secret' }),
      undefined,
    ),
    mine,
  );
  t.notMatch(mine, /secret/);
  t.not(randomHashKey(), randomHashKey());
});

t.test('no header value makes a dimension throw', async () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), fc.string({ maxLength: 300 }), (cookie, value) => {
      const byClaim = createIdentities(identitySection.parse({ user: { jwtClaim: 'sub' } }), 'key');
      const given = facts({ cookie, 'x-api-key': value, authorization: `Bearer ${value}` });
      for (const name of ['session', 'apiKey', 'user'] as const) byClaim.read(name, given, undefined);
      return true;
    }),
    { numRuns: 50 },
  );
});

t.test('a cookie header full of near misses is read in linear time', async (t) => {
  const startMs = performance.now();
  read('session', { cookie: ' sid='.repeat(12_000) });
  t.ok(performance.now() - startMs < 3000, `${performance.now() - startMs} ms`);
});
