import fc from 'fast-check';
import t from 'tap';
import { parseProxyHeader } from './proxy-protocol.js';

const v2 = (command: number, family: number, addresses: number[]): Buffer =>
  Buffer.concat([
    Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1'),
    Buffer.from([0x20 | command, family, addresses.length >> 8, addresses.length & 255, ...addresses]),
  ]);

t.test('headers of both versions', async (t) => {
  const v1 = 'PROXY TCP4 203.0.113.9 10.0.0.1 5555 80\r\n';
  t.match(parseProxyHeader(Buffer.from(`${v1}GET /`)), {
    kind: 'done',
    address: '203.0.113.9',
    length: v1.length,
  });
  t.match(parseProxyHeader(Buffer.from('PROXY UNKNOWN\r\n')), { kind: 'done', address: undefined });
  t.match(parseProxyHeader(Buffer.from('PROX')), { kind: 'more' });
  t.match(parseProxyHeader(Buffer.from('GET / HTTP/1.1\r\n')), { kind: 'bad' });
  t.match(parseProxyHeader(Buffer.from(`PROXY TCP4 ${'1'.repeat(200)}`)), { kind: 'bad' });
  const four = v2(1, 0x11, [203, 0, 113, 9, 10, 0, 0, 1, 0, 80, 0, 80]);
  t.match(parseProxyHeader(four), { kind: 'done', address: '203.0.113.9', length: 28 });
  t.match(parseProxyHeader(four.subarray(0, 20)), { kind: 'more' });
  const six = v2(1, 0x21, [
    ...Buffer.from('20010db8000000000000000000000001', 'hex'),
    ...new Array<number>(20).fill(0),
  ]);
  t.match(parseProxyHeader(six), { kind: 'done', address: '2001:db8:0:0:0:0:0:1' });
  t.match(parseProxyHeader(v2(0, 0, [])), { kind: 'done', address: undefined });
});

t.test('no bytes make it throw or ask for more without end', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), (bytes) => {
      const found = parseProxyHeader(Buffer.from(bytes));
      return found.kind !== 'more' || bytes.length < 2100;
    }),
  );
  t.pass('held');
});
