/**
 * Whatever bytes come in: the transformations, the parsers and the engine answer, and their cost stays
 * linear.
 */
import fc from 'fast-check';
import t from 'tap';
import { createJsonWalker } from '../../src/rules/body/json-walker.js';
import { createMultipartReader } from '../../src/rules/body/multipart.js';
import { readContentType, sniff } from '../../src/rules/body/content-type.js';
import { readPartHeader } from '../../src/rules/body/part-header.js';
import { engineOf, ids, judge } from '../../src/rules/fixtures/requests.js';
import { DECODERS, VIEWS, invisible } from '../../src/rules/transform/index.js';
import { decodeBase64 } from '../../src/rules/transform/base64.js';
import { foldUtf8 } from '../../src/rules/transform/utf8.js';
import { isPlain, variantsOf } from '../../src/rules/variants.js';

const BOUNDS = { decodeDepth: 5, variantsMax: 32 };
const RUNS = { numRuns: Number(process.env['FUZZ_RUNS'] ?? 300) };
fc.configureGlobal({ ...fc.readConfigureGlobal(), defaultSizeToMaxWhenMaxSpecified: true });
const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array).toString('latin1'));
const PIECES = [
  '%',
  '%u00',
  '27',
  '&#x',
  '3c;',
  '&colon;',
  '\\u',
  '\\x',
  '0041',
  '/*',
  '*/',
  '/*!',
  "'",
  '"',
  '||',
  '+',
  '+AD',
  '-',
  '${',
  'IFS',
  '}',
  '{a,',
  '..',
  '/',
  '\\',
  '\0',
  '\n',
  '--',
  '\xc0',
  '\xae',
  '\xe0\x80',
  '\xf0',
  ' ',
  '=',
  '[',
  ']',
  '{',
  ':',
  ',',
];
const crafted = fc.array(fc.constantFrom(...PIECES), { maxLength: 60 }).map((parts) => parts.join(''));
const any = fc.oneof(bytes, crafted, fc.string({ unit: 'binary', maxLength: 100 }));

t.test('transformations never throw and never grow text without bound', (t) => {
  fc.assert(
    fc.property(any, (text) => {
      for (const { apply } of [...DECODERS, ...VIEWS, invisible])
        if (apply(text).length > text.length * 2 + 8) return false;
      decodeBase64(text);
      return true;
    }),
    RUNS,
  );
  t.end();
});

t.test('the forms of a value are bounded and distinct, and the first is the value', (t) => {
  fc.assert(
    fc.property(any, fc.constantFrom('form', 'percent', 'none'), (text, encoding) => {
      const { list } = variantsOf(text, encoding as 'form', BOUNDS);
      return (
        list.length >= 1 &&
        list.length <= 32 &&
        list[0]?.text === foldUtf8(text) &&
        new Set(list.map((variant) => variant.text)).size === list.length
      );
    }),
    RUNS,
  );
  t.end();
});

t.test('a plain value has one form', (t) => {
  fc.assert(
    fc.property(fc.oneof(any, fc.stringMatching(/^[\w .,:-]{0,40}$/)), (text) => {
      return (
        !isPlain(text) ||
        variantsOf(text, 'form', BOUNDS).list.every(({ names }) =>
          names.every((name) => name === 'comments-space'),
        )
      );
    }),
    RUNS,
  );
  t.end();
});

t.test('percent layers up to the bound are taken off', (t) => {
  fc.assert(
    fc.property(fc.string({ maxLength: 20 }), fc.integer({ min: 1, max: 5 }), (text, layers) => {
      const plain = text.replaceAll(/[^\w<>' =]/g, '');
      let hidden = plain;
      for (let n = 0; n < layers; n++) hidden = encodeURIComponent(hidden);
      return variantsOf(hidden, 'form', BOUNDS).list.some((variant) => variant.text === plain);
    }),
    RUNS,
  );
  t.end();
});

t.test('valid UTF-8 is read as it is', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 50 }), (text) => {
      const raw = Buffer.from(text).toString('latin1');
      const found = variantsOf(raw, 'none', BOUNDS);
      return found.list[0]?.text === text && !found.overlong;
    }),
    RUNS,
  );
  t.end();
});

t.test('the JSON walker reads all valid JSON and stops on the rest', (t) => {
  const leaves = (value: unknown): number =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).reduce(
          (sum, [, inner]) => sum + leaves(inner) + (Array.isArray(value) ? 0 : 1),
          0,
        )
      : 1;
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1), (value, indent) => {
      const walker = createJsonWalker(JSON.stringify(value, null, indent), 1000);
      let count = 0;
      while (walker.next() !== undefined) count++;
      return walker.state() === 'done' && count === leaves(JSON.parse(JSON.stringify(value)));
    }),
    RUNS,
  );
  fc.assert(
    fc.property(any, (text) => {
      const walker = createJsonWalker(text, 20);
      while (walker.next() !== undefined);
      return walker.state() !== 'reading';
    }),
    RUNS,
  );
  t.end();
});

t.test('multipart is read the same in whatever pieces it comes', (t) => {
  const head = fc.constantFrom(
    'Content-Disposition: form-data; name="a"',
    'Content-Disposition: form-data; name="f"; filename="x"',
    'X: y',
  );
  const part = fc.tuple(head, bytes).map(([header, value]) => `--bb\r\n${header}\r\n\r\n${value}\r\n`);
  const body = fc
    .array(fc.oneof({ weight: 8, arbitrary: part }, bytes), { maxLength: 5 })
    .map((parts) => `${parts.join('')}--bb--\r\n`);
  const read = (text: string, size: number): string => {
    const seen: string[] = [];
    let file = '';
    const reader = createMultipartReader(
      'bb',
      { fieldBytesMax: 1000, multipartParts: 10, formData: true },
      {
        part: ({ name }) => seen.push(name),
        field: (_header, value) => seen.push(value.toString('latin1')),
        file: (_header, piece, ended) => {
          file += piece.toString('latin1');
          if (ended) seen.push(file);
          if (ended) file = '';
        },
      },
    );
    const raw = Buffer.from(text, 'latin1');
    let problem;
    for (let at = 0; at < raw.length && problem === undefined; at += size)
      problem = reader.write(raw.subarray(at, at + size));
    problem ??= reader.end();
    return JSON.stringify([problem, problem === undefined ? seen : []]);
  };
  fc.assert(
    fc.property(body, fc.integer({ min: 1, max: 40 }), (text, size) => read(text, size) === read(text, 1e6)),
    RUNS,
  );
  t.end();
});

t.test('headers and first bytes are read whatever they are', (t) => {
  fc.assert(
    fc.property(any, (text) => {
      readPartHeader(text);
      readPartHeader(`Content-Disposition: form-data; ${text}`);
      readContentType(text);
      return Array.isArray(sniff(Buffer.from(text, 'latin1')));
    }),
    RUNS,
  );
  t.end();
});

t.test('the engine answers any request, whatever its pieces', async () => {
  const engine = engineOf();
  const type = fc.constantFrom(
    'application/json',
    'multipart/form-data; boundary=bb',
    'text/plain',
    'application/octet-stream',
    'x',
    '',
  );
  await fc.assert(
    fc.asyncProperty(
      any,
      any,
      type,
      fc.integer({ min: 1, max: 400 }),
      async (query, body, contentType, size) => {
        const request = {
          target: `/${query}?${query}`,
          method: 'POST',
          body: Buffer.from(body, 'latin1'),
          headers: [
            ['Content-Type', contentType],
            ['X', query],
          ] as const,
        };
        return (
          JSON.stringify(ids(await judge(engine, request, size))) ===
          JSON.stringify(ids(await judge(engine, request, 1e6)))
        );
      },
    ),
    { numRuns: 200 },
  );
});

t.test('cost is linear in the size of hostile text', async (t) => {
  const engine = engineOf();
  const units = ['/*', '/*!', '&#x0', '%25', '\\u005c', "' '", '{a,${', '+AD', '../', '=([', '["', '{"a":'];
  const took = async (unit: string, size: number): Promise<number> => {
    const body = unit.repeat(size / unit.length);
    const from = process.cpuUsage();
    await judge(engine, { method: 'POST', body, headers: [['Content-Type', 'text/plain']] }, 65_536);
    return process.cpuUsage(from).user / 1000;
  };
  for (const unit of units) {
    await took(unit, 100_000);
    const small = Math.max(15, Math.min(await took(unit, 400_000), await took(unit, 400_000)));
    const large = Math.min(await took(unit, 1_600_000), await took(unit, 1_600_000));
    t.ok(large < small * 10, `${unit}: ${small.toFixed(0)} ms, four times as much ${large.toFixed(0)} ms`);
  }
});
