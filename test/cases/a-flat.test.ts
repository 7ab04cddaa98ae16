/** What big and hostile bodies cost others: A07 (i) and G02 stalls, A09's control of a long upload. */
import { createHash, randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import t from 'tap';
import { bench, FORM, JSON_TYPE, MULTIPART, multipart, passes } from '../support/case.js';
import { pingsDuring } from '../support/pings.js';
import { exchange, RawConnection, request, type RequestSpec } from '../support/raw-client.js';

const MIB = 1024 * 1024;
/**
 * A stall is felt by every small request that falls into it. The bound is generous: it has to hold on a busy
 * machine, and fails only where hostile bodies really hold the event loop.
 */
const MEDIAN_MAX_MS = 400;

const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };
const coded = (coding: string, body: Buffer): RequestSpec => ({
  headers: [JSON_TYPE, ['Content-Encoding', coding]],
  body,
});
const form = (body: string): RequestSpec => ({ headers: [FORM], body });
const json = (body: string): RequestSpec => ({ headers: [JSON_TYPE], body });
const KB250 = 250_000;
const many = (length: number): number[] => Array.from({ length }, (_, n) => n);

const HOSTILE: readonly (readonly [name: string, spec: RequestSpec])[] = [
  ['a gzip bomb', coded('gzip', gzipSync(Buffer.alloc(512 * MIB), { level: 9 }))],
  ['a brotli bomb', coded('br', brotliCompressSync(Buffer.alloc(256 * MIB), quality))],
  ['JSON, 100,000 deep', json('['.repeat(100_000) + ']'.repeat(100_000))],
  ['JSON, 15,000 keys', json(JSON.stringify(Object.fromEntries(many(15_000).map((n) => [`k${n}`, n]))))],
  ['a form of 30,000 fields', form(many(30_000).map((n) => `a${n}=1`).join('&'))],
  ['percent signs over percent signs', form(`q=${'%25'.repeat(KB250 / 3)}`)],
  ['quotes and comments', form(`q=${"'/**/or/**/".repeat(KB250 / 11)}`)],
  ['open tags', form(`q=${'<a href=x '.repeat(KB250 / 10)}`)],
  ['dots and slashes', form(`q=${'../'.repeat(KB250 / 3)}`)],
  ['one long word', json(`{"q":"${'a'.repeat(KB250)}"}`)],
  [
    '2,000 parts',
    {
      headers: [MULTIPART],
      body: multipart(
        many(2000).map((n) => ({
          head: [`Content-Disposition: form-data; name="f${n}"`],
          body: 'x',
        })),
      ),
    },
  ],
];

t.test('A07 (i), G02: hostile bodies do not hold up the others', async (test) => {
  const at = await bench(test, { reputation: { points: { refusal: 0 } } });
  at.up.keep = false;
  await passes(test, 'warm-up', at, {});
  const before = at.gate.workerMemoryMiB();
  for (const [name, spec] of HOSTILE) {
    const bytes = request(spec);
    const statuses: number[] = [];
    const pings = await pingsDuring(at.gate.port, async () => {
      for (let n = 0; n < 8; n++)
        statuses.push((await exchange(at.gate.port, bytes, { timeoutMs: 30_000 })).status);
    });
    test.ok(statuses.every((status) => status >= 200 && status < 500), `${name}: answered`, { statuses });
    test.equal(pings.failed, 0, `${name}: others are served`, pings);
    test.ok(pings.medianMs < MEDIAN_MAX_MS, `${name}: others are served in time`, pings);
    test.comment(`${name}: ${JSON.stringify({ ...pings, statuses })}`);
  }
  const grown = at.gate.workerMemoryMiB() - before;
  test.ok(grown < 160, 'memory stays bounded', { grown });
});

t.test('A09, control: 320 MB of one upload stream through in flat memory', async (test) => {
  const at = await bench(test);
  at.up.keep = false;
  await passes(test, 'warm-up', at, {});
  const block = randomBytes(MIB);
  const opening = Buffer.from(
    '--bb\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n' +
      'Content-Type: application/octet-stream\r\n\r\n',
  );
  const closing = Buffer.from('\r\n--bb--\r\n');
  const count = 320;
  const length = opening.length + count * MIB + closing.length;
  const connection = await RawConnection.open(at.gate.port);
  const hash = createHash('sha256').update(opening);
  const before = at.gate.workerMemoryMiB();
  let peak = 0;
  const pings = await pingsDuring(at.gate.port, async () => {
    const head = request({ method: 'POST', headers: [MULTIPART, ['Content-Length', String(length)]] });
    await connection.send(Buffer.concat([head, opening]));
    for (let n = 0; n < count; n++) {
      await connection.send(block);
      hash.update(block);
      if (n % 10 === 0) peak = Math.max(peak, at.gate.workerMemoryMiB());
    }
    await connection.send(closing);
  });
  const answer = await connection.read({ timeoutMs: 30_000 });
  connection.destroy();
  test.equal(answer.status, 200, 'passes');
  test.match(answer.text(), hash.update(closing).digest('hex'), 'byte for byte');
  test.ok(peak - before < 64, 'memory grows by less than 64 MiB', { before, peak });
  test.equal(pings.failed, 0, 'others are served meanwhile', pings);
  test.ok(pings.medianMs < MEDIAN_MAX_MS, 'in time', pings);
});
