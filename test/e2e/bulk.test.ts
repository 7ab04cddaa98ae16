/** A hundred megabytes either way pass through without being held. */
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { bench, MULTIPART, passes, type Bench } from '../support/case.js';
import { exchange, RawConnection, request } from '../support/raw-client.js';

const OCTETS = ['Content-Type', 'application/octet-stream'] as const;
const MIB = 1024 * 1024;

/**
 * Sends `head`, then `total` bytes made of `block`; gives the hash of the blocks and the highest worker
 * memory seen.
 */
async function upload(at: Bench, parts: { head: Buffer; block: Buffer; count: number; tail?: Buffer }) {
  const connection = await RawConnection.open(at.gate.port);
  const { head, block, count, tail } = parts;
  let peak = 0;
  await connection.send(head);
  for (let n = 0; n < count; n++) {
    await connection.send(block);
    if (n % 10 === 0) peak = Math.max(peak, at.gate.workerMemoryMiB());
  }
  if (tail) await connection.send(tail);
  const answer = await connection.read({ timeoutMs: 20_000 });
  connection.destroy();
  return { answer, peak };
}

t.test('100 MB go up in constant memory', async (test) => {
  const at = await bench(test);
  at.up.keep = false;
  await passes(test, 'warm-up', at, {});
  const block = randomBytes(MIB);
  const before = at.gate.workerMemoryMiB();
  const octets = await upload(at, {
    head: request({ method: 'PUT', headers: [OCTETS, ['Content-Length', String(100 * MIB)]] }),
    block,
    count: 100,
  });
  test.equal(octets.answer.status, 200, 'octet-stream: passes');
  const hash = createHash('sha256');
  for (let n = 0; n < 100; n++) hash.update(block);
  test.match(octets.answer.text(), hash.digest('hex'), 'octet-stream: whole');
  test.ok(octets.peak - before < 64, 'octet-stream: memory grows by less than 64 MiB', {
    before,
    peak: octets.peak,
  });

  const disposition = 'Content-Disposition: form-data; name="f"; filename="a.bin"';
  const opening = Buffer.from(`--bb\r\n${disposition}\r\nContent-Type: application/octet-stream\r\n\r\n`);
  const closing = Buffer.from('\r\n--bb--\r\n');
  const length = opening.length + 100 * MIB + closing.length;
  const form = await upload(at, {
    head: Buffer.concat([
      request({ method: 'POST', headers: [MULTIPART, ['Content-Length', String(length)]] }),
      opening,
    ]),
    block,
    count: 100,
    tail: closing,
  });
  test.equal(form.answer.status, 200, 'multipart: passes');
  test.match(form.answer.text(), `"bodyBytes":${length}`, 'multipart: whole');
  test.ok(form.peak - before < 64, 'multipart: memory grows by less than 64 MiB', {
    before,
    peak: form.peak,
  });
});

t.test('100 MB come down in constant memory', async (test) => {
  const at = await bench(test);
  await passes(test, 'warm-up', at, {});
  const block = randomBytes(MIB);
  at.up.script = async (_seen, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${100 * MIB}\r\n\r\n`);
    for (let n = 0; n < 100; n++) await new Promise<void>((done) => void socket.write(block, () => done()));
    return undefined;
  };
  const before = at.gate.workerMemoryMiB();
  let peak = 0;
  let parts = 0;
  const hash = createHash('sha256');
  const answer = await exchange(at.gate.port, request(), {
    timeoutMs: 20_000,
    onPart: (part) => {
      hash.update(part);
      if (parts++ % 200 === 0) peak = Math.max(peak, at.gate.workerMemoryMiB());
    },
  });
  const wanted = createHash('sha256');
  for (let n = 0; n < 100; n++) wanted.update(block);
  test.equal(answer.bodyBytes, 100 * MIB, 'whole');
  test.equal(hash.digest('hex'), wanted.digest('hex'), 'byte for byte');
  test.ok(peak - before < 64, 'memory grows by less than 64 MiB', { before, peak });
});

t.test(
  'a bulk import of 20 000 records in one JSON body passes, and an attack in its last record does not',
  async (test) => {
    const at = await bench(test);
    const record = (n: number) => ({
      id: n,
      sku: `SKU-${n}`,
      name: `Blue cotton shirt ${n}`,
      price: 19.5,
      sold: true,
    });
    const records = Array.from({ length: 20_000 }, (_, n) => record(n));
    const post = (body: string) => ({
      method: 'POST',
      target: '/import',
      headers: [['Content-Type', 'application/json']] as [string, string][],
      body,
    });
    await passes(test, 'ordinary records', at, post(JSON.stringify(records)));
    records[19_999] = { ...record(19_999), name: "x' union select password from users -- " };
    const answer = await exchange(at.gate.port, request(post(JSON.stringify(records))));
    test.equal(answer.status, 403, 'one bad record');
  },
);
