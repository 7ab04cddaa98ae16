/** Public hard cases about path, parameters and host (B01, B03, B05), through the gate, over raw sockets. */
import { createServer } from 'node:net';
import { once } from 'node:events';
import t from 'tap';
import { bench, blocked, FORM, JSON_TYPE, MULTIPART, multipart, passes, XSS, SQLI } from '../support/case.js';
import { EchoUpstream } from '../support/echo-upstream.js';
import { exchange, request } from '../support/raw-client.js';

/** Denies `/bar/uploads/*.php` and `backup.sql`, as an operator's own rules would. */
const OWN_RULES = {
  'own/deny-upload.yaml': `id: OWN-001
title: Script among the uploads
class: lfi
severity: 4
targets: [path]
patterns: ['^/+bar/uploads/[^/]*\\.php']
examples:
  match: [{ target: path, value: /bar/uploads/x.php }]
  pass: [{ target: path, value: /bar/uploads/x.png }]
`,
  'own/deny-backup.yaml': `id: OWN-002
title: A database dump
class: lfi
severity: 4
targets: [path]
patterns: ['backup\\.sql']
examples:
  match: [{ target: path, value: /backup.sql }]
  pass: [{ target: path, value: /backup }]
`,
};

t.test('B01: a path that starts with two slashes', async (test) => {
  const at = await bench(test);
  let stray = 0;
  const other = createServer((socket) => {
    stray += 1;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(other, 'listening');
  test.teardown(() => other.close());
  const address = other.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await blocked(test, 'positive control', at, {
    bytes: request({ target: '/bar/..%2f..%2f..%2fetc/passwd' }),
  });
  for (const target of ['//bar/../../../etc/passwd', '///bar/%2e%2e/%2e%2e/etc/passwd']) {
    await blocked(test, `the path is inspected whole: ${target}`, at, { bytes: request({ target }) });
  }
  for (const target of ['//bar/uploads/x.png?a=b', `//127.0.0.1:${port}/`, '///bar/x']) {
    const answer = await exchange(at.gate.port, request({ target }));
    const refused = answer.status === 400;
    test.ok(refused || answer.status === 200, `${target}: refused or taken as a plain path`, {
      got: answer.status,
    });
    if (!refused) test.equal(at.up.last?.target, target, `${target}: forwarded as it was inspected`);
  }
  for (const target of ['/\\evil.test/', 'http:///bar/uploads/x.php']) {
    const answer = await exchange(at.gate.port, request({ target }));
    test.ok([200, 400].includes(answer.status), `${target}: 400 or a plain path`, { got: answer.status });
    if (answer.status === 200)
      test.equal(at.up.last?.header('host'), 'app.test', `${target}: the host stays`);
  }
  test.equal(stray, 0, 'no connection went to the host named in the path');
});

t.test('B01: a rule on the path holds however many slashes open it', async (test) => {
  const at = await bench(test, { rules: { custom: ['own'] } }, { files: OWN_RULES });
  for (const target of ['/bar/uploads/x.php', '//bar/uploads/x.php?a=b', '///bar/uploads/x.php']) {
    await blocked(test, target, at, { bytes: request({ target }), statuses: [403] });
  }
  await passes(test, 'control: an image', at, { target: '/bar/uploads/x.png' });
  for (const target of ['/backup.sql', '/backup%2Esql', '/backup%252Esql']) {
    await blocked(test, `B03 (a) ${target}`, at, { bytes: request({ target }), statuses: [403] });
  }
});

t.test('B03: decoding differs by stage; NUL bytes', async (test) => {
  const at = await bench(test);
  const escaped = encodeURIComponent(SQLI);
  const rows: readonly { name: string; bytes: Buffer }[] = [
    { name: 'positive control', bytes: request({ target: `/?q=${escaped}` }) },
    {
      name: '(b) encoded in the Referer',
      bytes: request({ headers: [['Referer', 'https://app.test/a?b=%3Bid%3Bcat%20%2Fetc%2Fpasswd']] }),
    },
    { name: '(c) after %00', bytes: request({ target: `/?q=x%00${escaped}` }) },
    { name: '(d) after %2500', bytes: request({ target: `/?q=x%2500${escaped}` }) },
    { name: '(d) after %u0000', bytes: request({ target: `/?q=x%u0000${escaped}` }) },
    { name: '(e) a NUL in a form', bytes: request({ headers: [FORM], body: 'file=a.php%00.jpg' }) },
    { name: '(f) a NUL in JSON', bytes: request({ headers: [JSON_TYPE], body: `{"q":"x\\u0000${XSS}"}` }) },
  ];
  for (const { name, bytes } of rows) await blocked(test, name, at, { bytes });
  await passes(test, 'control: 50%25 in a Referer', at, {
    headers: [['Referer', 'https://app.test/?q=50%25']],
  });
  const file = {
    head: ['Content-Disposition: form-data; name="f"; filename="a.png"', 'Content-Type: image/png'],
    body: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0, 0, 0xff, 0]),
  };
  await passes(test, 'control: a binary upload with NULs', at, {
    headers: [MULTIPART],
    body: multipart([file]),
  });
});

t.test('B05: host confusion and the catch-all host', async (test) => {
  const up = await EchoUpstream.start();
  test.teardown(() => up.close());
  const sites = [
    { name: 'app', hosts: ['app.test'], upstreams: [up.url] },
    { name: 'admin', hosts: ['admin.test'], upstreams: [up.url] },
  ];
  const { gate } = await bench(
    test,
    { sites, trustedProxies: ['127.0.0.1'], reputation: { blocklist: 'block.txt' } },
    { files: { 'block.txt': '203.0.113.66\n' } },
  );
  const at = { gate, up };
  await passes(test, 'positive control', at, { host: 'app.test' });
  const absolute = await exchange(gate.port, request({ target: 'http://admin.test/', host: 'app.test' }));
  const replaced = absolute.status === 200 && up.last?.header('host') === 'admin.test';
  test.ok(absolute.status === 400 || replaced, '(a) absolute form: 400, or its host replaces Host', {
    got: absolute.status,
  });
  await blocked(test, '(b) two Host lines', at, {
    bytes: request({ host: 'app.test', headers: [['Host', 'admin.test']] }),
    statuses: [400],
    close: true,
  });
  for (const host of [
    'app.test@admin.test',
    'app.test:80:90',
    'app.test/x',
    'app.test, admin.test',
    'app test',
  ]) {
    await blocked(test, `(d) Host: ${host}`, at, { bytes: request({ host }), statuses: [400] });
  }
  await blocked(test, '(d) no Host', at, { bytes: request({ host: null }), statuses: [400] });
  const folded = await exchange(gate.port, request({ host: 'APP.TEST.', target: '/folded' }));
  test.equal(folded.status, 200, '(d) trailing dot and upper case are folded');
  const event = await gate.event(({ path }) => path === '/folded');
  test.equal(event.site, 'app', '(d) the folded host has its site');
  test.equal(event.host, 'app.test', '(d) one canonical host in the log');
  const from = (ip: string, target: string) =>
    request({ host: '203.0.113.10', target, headers: [['X-Forwarded-For', ip]] });
  await blocked(test, '(e) unknown host', at, { bytes: from('192.0.2.9', '/e1'), statuses: [404, 421] });
  await blocked(test, '(e) unknown host, banned address', at, {
    bytes: from('203.0.113.66', '/e2'),
    statuses: [403],
  });
  await blocked(test, '(e) unknown host, attack', at, {
    bytes: from('192.0.2.9', `/?q=${encodeURIComponent(SQLI)}`),
    statuses: [403],
  });
});

t.test('B05 (e): limits count requests to an unknown host', async (test) => {
  const at = await bench(test, {
    limits: {
      policies: [
        { name: 'ingress', enabled: false },
        { name: 'api', match: { path: '/**' }, by: ['ip'], limit: '5/min', exact: true },
      ],
    },
  });
  const statuses: number[] = [];
  for (let n = 0; n < 8; n++)
    statuses.push((await exchange(at.gate.port, request({ host: '203.0.113.10' }))).status);
  test.ok(
    statuses.slice(0, 5).every((status) => [404, 421].includes(status)),
    'the first five meet the unknown host',
    { statuses },
  );
  test.ok(
    statuses.slice(5).every((status) => status === 429),
    'the others are limited',
    { statuses },
  );
});

t.test('B05 (c): HTTP/2 authority', { skip: 'the gate serves HTTP/1.1 only' }, () => undefined);
