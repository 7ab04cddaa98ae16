import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import t from 'tap';
import { awaitHead } from './unasked-continue.js';

function readAll(pieces: readonly string[]): string {
  const source = new PassThrough();
  awaitHead(source as unknown as Socket);
  let got = '';
  for (const piece of pieces) {
    source.write(piece);
    for (let part: Buffer | null; (part = source.read() as Buffer | null) !== null;) got += part.toString();
  }
  return got;
}

t.test('an interim 100 before the answer is taken out, however it is cut', async (t) => {
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\nHTTP/1.1 100 a\r\n\r\n';
  const sent = `HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${answer}`;
  t.equal(readAll([sent]), answer, 'in one piece; the body may look like one');
  t.equal(readAll([...sent]), answer, 'byte by byte');
  t.equal(readAll([answer, 'HTTP/1.1 100 ', 'x']), `${answer}HTTP/1.1 100 x`, 'nothing later is touched');
});
