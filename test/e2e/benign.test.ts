/** Replays every ordinary request of the benign corpus through the gate: none may be refused. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bench, findingsOf } from '../support/case.js';
import { ROOT } from '../support/gate.js';
import { exchange } from '../support/raw-client.js';

const folder = join(ROOT, 'test/attacks/benign');

type Row = {
  id?: string;
  method: string;
  target?: string;
  path?: string;
  url?: string;
  headers?: [string, string][] | Record<string, string>;
  body?: string;
  bodyBase64?: string;
  body_b64?: string;
};

function rows(): Row[] {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  return files.flatMap((name) =>
    readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => JSON.parse(line) as Row),
  );
}

function bytesOf(row: Row): Buffer {
  const encoded = row.bodyBase64 ?? row.body_b64;
  const body = encoded === undefined ? Buffer.from(row.body ?? '') : Buffer.from(encoded, 'base64');
  const given = Array.isArray(row.headers) ? row.headers : Object.entries(row.headers ?? {});
  const headers = given.filter(
    ([name]) => !/^(host|content-length|transfer-encoding|connection)$/i.test(name),
  );
  const framed =
    body.length > 0 || /^(POST|PUT|PATCH)$/.test(row.method) ? [['Content-Length', String(body.length)]] : [];
  const target = (row.target ?? row.path ?? row.url ?? '/').replace(/^https?:\/\/[^/]+/, '');
  const lines = [['Host', 'app.test'], ...headers, ...framed].map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${row.method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, 'utf8');
  return Buffer.concat([head, body]);
}

const all = rows();
t.test(
  'no ordinary request is refused',
  { skip: all.length === 0 ? 'the benign corpus is absent' : false },
  async (test) => {
    test.ok(all.length >= 300, 'at least 300 requests', { count: all.length });
    const at = await bench(test, { trustedProxies: ['127.0.0.1'], limits: { policies: [...off()] } });
    at.up.keep = false;
    for (const row of all) {
      const answer = await exchange(at.gate.port, bytesOf(row), { headOnly: row.method === 'HEAD' });
      const why =
        answer.status === 200 ? {} : { got: answer.status, findings: await findingsOf(at.gate, answer) };
      test.equal(
        answer.status,
        200,
        `${row.id ?? ''} ${row.method} ${row.target ?? row.path ?? row.url ?? ''}`.slice(0, 100),
        why,
      );
    }
  },
);

function* off(): Generator<{ name: string; enabled: boolean }> {
  for (const name of ['ingress', 'api', 'login', 'passwordReset']) yield { name, enabled: false };
}
