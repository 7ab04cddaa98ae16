/** Bodies that an origin may read otherwise than they are declared, through the gate, over raw sockets. */
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import {
  bench,
  blocked,
  FORM,
  JSON_TYPE,
  multipart,
  MULTIPART,
  passes,
  until,
  type Bench,
} from '../support/case.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

const SQLI = "1' or '1'='1' -- ";
const CODED = encodeURIComponent(SQLI);

async function metric({ gate }: Bench, name: string): Promise<number> {
  const text = await (await gate.admin('/metrics')).text();
  const lines = [...text.matchAll(new RegExp(`^tidegate_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))];
  return lines.reduce((sum, [, value]) => sum + Number(value), 0);
}

async function settles(test: Test, at: Bench): Promise<void> {
  const idle = async () =>
    (await metric(at, 'held_body_bytes')) === 0 && (await metric(at, 'requests_in_flight')) === 0;
  test.ok(await until(idle, 15_000), 'nothing is held and nothing is under way');
}

t.test('bytes after the end of a compressed body are refused and leave nothing behind', async (test) => {
  const at = await bench(test, { timeouts: { body: '2s' } });
  const plain = '{"q":"hello"}';
  const codings: [string, Buffer][] = [
    ['deflate', deflateSync(plain)],
    ['deflate', deflateRawSync(plain)],
    ['br', brotliCompressSync(plain)],
    ['gzip', gzipSync(plain)],
  ];
  for (let round = 0; round < 32; round++) {
    const [coding, body] = codings[round % codings.length]!;
    await blocked(test, `${coding} ${round}`, at, {
      bytes: request({
        method: 'POST',
        headers: [JSON_TYPE, ['Content-Encoding', coding]],
        body: Buffer.concat([body, Buffer.from('x'.repeat(1 + round * 50))]),
      }),
      statuses: [400],
    });
  }
  await settles(test, at);
  for (const [coding, body] of codings)
    await passes(test, `ordinary ${coding}`, at, {
      method: 'POST',
      headers: [JSON_TYPE, ['Content-Encoding', coding]],
      body,
    });
});

t.test('a client that leaves while its body is judged ends the work', async (test) => {
  const at = await bench(test);
  const body = Buffer.from(`{"a":"${'x \\"y\\" z%41 &amp; '.repeat(300_000)}"}`);
  const clients = await Promise.all([1, 2, 3].map(() => RawConnection.open(at.gate.port)));
  for (const client of clients) await client.send(request({ method: 'POST', headers: [JSON_TYPE], body }));
  await until(async () => (await metric(at, 'held_body_bytes')) > 0, 5000);
  // A reset says that nobody listens; a FIN alone may come from a client that still waits for the answer.
  for (const client of clients) client.reset();
  await settles(test, at);
  await passes(test, 'an ordinary post', at, { method: 'POST', headers: [JSON_TYPE], body: '{"a":1}' });
});

t.test('every reading is judged', async (test) => {
  const at = await bench(test);
  const disguised = multipart(
    [{ head: ['Content-Disposition: form-data; name="f"; filename="f"'], body: `&q=${CODED}` }],
    'x',
  );
  const named = (name: string): Buffer => {
    const plain = gzipSync('x');
    const head = Buffer.from(plain.subarray(0, 10));
    head[3] = 8;
    return Buffer.concat([head, Buffer.from(`${name}\0`), plain.subarray(10)]);
  };
  const field = '\r\n--bb\r\nContent-Disposition: form-data; name="q"\r\n\r\n';
  const rows: (RequestSpec & { name: string })[] = [
    { name: 'a form that looks like multipart', headers: [FORM], body: disguised },
    { name: 'text that looks like multipart', headers: [['Content-Type', 'text/plain']], body: disguised },
    {
      name: 'multipart in the name of a gzip file',
      headers: [MULTIPART, ['Content-Encoding', 'gzip']],
      body: named(`${field}${SQLI}\r\n--bb--\r\n`),
    },
    {
      name: 'a form in the name of a gzip file',
      headers: [FORM, ['Content-Encoding', 'gzip']],
      body: named(`&q=${CODED}&`),
    },
    {
      name: 'JSON in UTF-16',
      headers: [JSON_TYPE],
      body: Buffer.from('{"q":"1\\u0027 or \\u00271\\u0027=\\u00271\\u0027 -- "}', 'utf16le'),
    },
    {
      name: 'an extended boundary',
      headers: [['Content-Type', "multipart/form-data; boundary*=utf-8''bb"]],
      body: multipart([{ head: ['Content-Disposition: form-data; name="q"'], body: 'x' }]),
    },
    {
      name: 'a public document type elsewhere',
      headers: [['Content-Type', 'application/xml']],
      body: '<!DOCTYPE r PUBLIC "a" "http://evil.test/x.dtd"><r>&x;</r>',
    },
    {
      name: 'XML split by CDATA',
      headers: [['Content-Type', 'application/xml']],
      body: '<q>1 uni<![CDATA[on sel]]>ect 1,2 from users</q>',
    },
    { name: 'a prototype', headers: [JSON_TYPE], body: '{"constructor":{"prototype":{"isAdmin":true}}}' },
    { name: 'a prototype in a form', headers: [FORM], body: 'constructor[prototype][isAdmin]=1' },
    { name: 'a prototype in a form, coded', headers: [FORM], body: 'constructor%5Bprototype%5D%5Ba%5D=1' },
  ];
  for (const row of rows)
    await blocked(test, row.name, at, { bytes: request({ method: 'POST', ...row }), statuses: [400, 403] });
  const mixed = ['Content-Type', 'multipart/mixed; boundary=bb'] as const;
  const file = 'Content-Disposition: form-data; name="f"; filename=';
  const ordinary: (RequestSpec & { name: string })[] = [
    {
      name: 'plist',
      headers: [['Content-Type', 'application/xml']],
      body: '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n<plist version="1.0"><dict><key>a</key><string>b</string></dict></plist>',
    },
    {
      name: 'svg',
      headers: [['Content-Type', 'image/svg+xml']],
      body: '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"><svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>',
    },
    {
      name: 'quotes in a file name',
      headers: [MULTIPART],
      body: multipart([{ head: [`${file}"a \\"b\\".txt"`], body: 'x' }]),
    },
    {
      name: 'a size',
      headers: [MULTIPART],
      body: multipart([{ head: [`${file}"a.txt"; size=5`], body: 'hello' }]),
    },
    {
      name: 'a file in base64',
      headers: [MULTIPART],
      body: multipart([{ head: [`${file}"a.txt"`, 'Content-Transfer-Encoding: base64'], body: 'aGVsbG8=' }]),
    },
    {
      name: 'a batch of OData',
      headers: [mixed],
      body: multipart([
        {
          head: ['Content-Type: application/http', 'Content-Transfer-Encoding: binary'],
          body: 'GET /Products?$top=5&$filter=Price%20gt%203 HTTP/1.1\r\nAccept: application/json\r\n\r\n',
        },
        {
          head: ['Content-Type: application/http', 'Content-ID: 1'],
          body: 'PATCH /Products(1) HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{"Name":"Tea & co"}',
        },
      ]),
    },
    {
      name: 'metadata and media',
      headers: [['Content-Type', 'multipart/related; boundary=bb']],
      body: multipart([
        {
          head: ['Content-Type: application/json; charset=UTF-8'],
          body: '{"name":"a.png","parents":["root"]}',
        },
        {
          head: ['Content-Type: image/png'],
          body: Buffer.from(`\x89PNG\r\n\x1a\n${'\0\x01\x02'.repeat(1000)}`, 'latin1'),
        },
      ]),
    },
  ];
  for (const row of ordinary) await passes(test, row.name, at, { method: 'POST', ...row });
});

t.test('what refuses by itself ends the reading', async (test) => {
  const at = await bench(test);
  const client = await RawConnection.open(at.gate.port);
  const head = request({
    method: 'POST',
    headers: [
      ['Content-Type', 'text/plain'],
      ['Content-Length', String(9 * 1024 * 1024)],
    ],
  });
  await client.send(Buffer.concat([head, Buffer.from(`${SQLI}\n${'words of prose\n'.repeat(20_000)}`)]));
  const answer = await client.read({ timeoutMs: 10_000 });
  test.equal(answer.status, 403, 'refused before the rest of the body came');
  client.destroy();
  const after = await exchange(at.gate.port, request({ method: 'GET' }));
  test.equal(after.status, 200);
});
