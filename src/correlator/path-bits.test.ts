import t from 'tap';
import { addPath, createPathBits, distinctPaths, readPathBits, writePathBits } from './path-bits.js';

t.test('distinct paths are told from repeated ones', async (test) => {
  for (const [paths, times] of [
    [1, 500],
    [30, 10],
    [100, 5],
    [400, 1],
  ] as const) {
    const bits = createPathBits();
    for (let at = 0; at < paths * times; at++) addPath(bits, `/item/${at % paths}`);
    const told = distinctPaths(bits);
    test.ok(Math.abs(told - paths) <= 1 + paths * 0.2, `${paths}: ${told}`);
    test.same(readPathBits(writePathBits(bits)), bits);
  }
});

t.test('a full one stays finite, and odd text is refused', async (test) => {
  const bits = createPathBits();
  for (let at = 0; at < 100_000; at++) addPath(bits, `/${at}`);
  test.ok(distinctPaths(bits) <= 1_420);
  test.throws(() => readPathBits('AAAA'));
});
