import t from 'tap';
import zlib from 'node:zlib';
import { openDecoder, type Decoder } from './decode.js';

const caps = { outputBytesMax: 4 * 1024 * 1024, ratioMax: 100, waitMs: 20_000 };
const text = Buffer.from('{"q":"hello"}'.repeat(50));

async function decode(coding: string, body: Buffer, step = 7): Promise<string> {
  const decoder = openDecoder(coding, caps) as Decoder;
  if ('problem' in decoder) return 'refused';
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += step) {
    const got = await decoder.write(body.subarray(at, at + step));
    if ('problem' in got) return got.id;
    parts.push(got);
  }
  const last = await decoder.end();
  if ('problem' in last) return last.id;
  return Buffer.concat([...parts, last]).toString();
}

t.test('codings are undone, in pieces', async (t) => {
  const cases: [string, Buffer][] = [
    ['gzip', zlib.gzipSync(text)],
    ['x-gzip', zlib.gzipSync(text)],
    ['deflate', zlib.deflateSync(text)],
    ['deflate', zlib.deflateRawSync(text)],
    ['br', zlib.brotliCompressSync(text)],
    ['GZIP', zlib.gzipSync(text)],
  ];
  for (const [coding, body] of cases) t.equal(await decode(coding, body), text.toString(), coding);
  t.equal(openDecoder(undefined, caps), undefined);
  t.equal(openDecoder('identity', caps), undefined);
});

t.test('what cannot be undone says so', async (t) => {
  t.match(openDecoder('gzip, gzip', caps), { status: 415 });
  t.match(openDecoder('zstd', caps), { status: 415 });
  t.equal(await decode('gzip', text), 'CODING-BROKEN');
  t.equal(await decode('gzip', zlib.gzipSync(text).subarray(0, 30)), 'CODING-BROKEN', 'truncated');
});

t.test('a bomb stops at its cap', async (t) => {
  const bomb = zlib.gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const before = process.memoryUsage().rss;
  t.equal(await decode('gzip', bomb, bomb.length), 'CODING-BOMB');
  t.ok(process.memoryUsage().rss - before < 48 * 1024 * 1024, 'memory stays bounded');
});

t.test('bytes after the end of the stream are told, in whatever pieces they come', async (t) => {
  const coders: [string, Buffer][] = [
    ['gzip', zlib.gzipSync(text)],
    ['deflate', zlib.deflateSync(text)],
    ['deflate', zlib.deflateRawSync(text)],
    ['br', zlib.brotliCompressSync(text)],
  ];
  for (const [coding, body] of coders) {
    for (const rest of ['x', '\0', '\0'.repeat(50), '&q=1']) {
      const sent = Buffer.concat([body, Buffer.from(rest)]);
      for (const step of [1, 7, body.length, sent.length]) {
        const got = await decode(coding, sent, step);
        t.ok(['CODING-TRAILING', 'CODING-BROKEN'].includes(got), `${coding} ${step}: ${got}`);
      }
    }
    t.equal(await decode(coding, body, body.length), text.toString(), `${coding} alone`);
  }
});

t.test('a decoder that is closed answers whoever waits', async (t) => {
  const decoder = openDecoder('br', caps) as Decoder;
  const waits = decoder.write(zlib.brotliCompressSync(text).subarray(0, 20));
  decoder.close();
  t.ok(await waits);
  t.ok(await decoder.end());
});
