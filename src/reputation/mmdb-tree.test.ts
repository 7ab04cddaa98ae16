import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Reader } from 'maxmind';
import t from 'tap';
import { formatIpv4 } from '../core/address.js';
import { createIpv4Walk } from './mmdb-tree.js';
import { DEMO } from './testing.js';

t.test('the walk finds data exactly where the general reader does', async (t) => {
  const bytes = await readFile(join(DEMO, 'asn-sample.mmdb'));
  const reader = new Reader<never>(bytes);
  const walk = createIpv4Walk(bytes, reader.metadata)!;
  const byPointer = new Map<number, string>();
  let wrong = 0;
  let found = 0;
  for (let n = 0; n < 60_000; n++) {
    // A stride over all of IPv4, then the documentation ranges.
    const address = n < 50_000 ? (n * 85_899) >>> 0 : ((n & 1 ? 0xc0000200 : 0xc6336400) + (n & 1023)) >>> 0;
    const row = JSON.stringify(reader.get(formatIpv4(address)));
    const pointer = walk(address);
    if (row === 'null' ? pointer > reader.metadata.nodeCount : pointer <= reader.metadata.nodeCount) wrong++;
    if (row === 'null') continue;
    found++;
    if ((byPointer.get(pointer) ?? row) !== row) wrong++;
    byPointer.set(pointer, row);
  }
  t.equal(wrong, 0);
  t.ok(found > 500, `${found} found`);
});

t.test('records of 24, 28 and 32 bits are read, others are left to the general reader', (t) => {
  const cases: [recordSize: number, bytes: number[], left: number, right: number][] = [
    [24, [0, 1, 2, 3, 4, 5], 0x000102, 0x030405],
    [28, [1, 2, 3, 0xab, 4, 5, 6], 0xa010203, 0xb040506],
    [32, [0xf0, 1, 2, 3, 0xf4, 5, 6, 7], 0xf0010203, 0xf4050607],
  ];
  for (const [recordSize, bytes, left, right] of cases) {
    const walk = createIpv4Walk(Buffer.from(bytes), { nodeCount: 1, recordSize, ipVersion: 4 })!;
    t.equal(walk(0), left, `${recordSize} left`);
    t.equal(walk(0x80000000), right, `${recordSize} right`);
  }
  t.equal(createIpv4Walk(Buffer.alloc(8), { nodeCount: 1, recordSize: 20, ipVersion: 4 }), undefined);
  t.end();
});
