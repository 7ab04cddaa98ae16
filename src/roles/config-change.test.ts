import t from 'tap';
import { parseConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import { carryOver, pinPorts, withMode } from './config-change.js';

const BASE = 'sites: [{ name: a, hosts: [a.test], upstreams: ["http://127.0.0.1:1"] }]\n';
const config = (more = ''): Config => parseConfig(`${BASE}${more}`, '/tmp/gate.yaml', { environment: {} });

const cases = [
  { name: 'nothing changed', next: '', waiting: [] },
  { name: 'the mode is taken over', next: 'mode: observe\n', waiting: [] },
  { name: 'another heap of the workers waits', next: 'workerHeap: lean\n', waiting: ['workerHeap'] },
  { name: 'another number of workers waits', next: 'workers: 7\n', waiting: ['workers'] },
  { name: 'another address waits', next: 'listen: "127.0.0.1:1234"\n', waiting: ['listen'] },
  { name: 'the log waits', next: 'log: { passed: false }\n', waiting: ['log'] },
  {
    name: 'the size of a shared table waits',
    next: 'limits: { keysMax: 5000 }\n',
    waiting: ['limits.keysMax'],
  },
];
for (const { name, next, waiting } of cases) {
  t.test(name, (test) => {
    const running = config();
    const answer = carryOver(running, config(next));
    test.strictSame(answer.waiting, waiting);
    test.strictSame(answer.config.workers, running.workers, 'what waits stays as it runs');
    test.strictSame(answer.config.limits.keysMax, running.limits.keysMax);
    test.strictSame(answer.config.mode, config(next).mode, 'what need not wait is new');
    test.end();
  });
}

t.test('certificates may lie elsewhere after a reload', (test) => {
  const at = (pem: string, address = ':8443') =>
    config(`listen: [{ address: "${address}", tls: { cert: ${pem}.pem, key: k.pem } }]\n`);
  const moved = carryOver(at('a'), at('b'));
  test.strictSame([moved.waiting, moved.config.listen[0]?.tls?.cert], [[], 'b.pem']);
  const elsewhere = carryOver(at('a'), at('b', ':9443'));
  test.strictSame([elsewhere.waiting, elsewhere.config.listen[0]?.tls?.cert], [['listen'], 'a.pem']);
  test.end();
});

t.test('the mode is set for all, for one site, for none that is unknown', (test) => {
  test.equal(withMode(config(), 'observe', undefined)?.mode, 'observe');
  test.equal(withMode(config(), 'observe', 'a')?.sites[0]?.mode, 'observe');
  test.equal(withMode(config(), 'observe', 'a')?.mode, 'enforce');
  test.equal(withMode(config(), 'observe', 'b'), undefined);
  test.end();
});

t.test('only listeners that took any port are pinned', (test) => {
  const two = config('listen: ["127.0.0.1:0", "127.0.0.1:8081"]\n');
  const addresses = pinPorts(two, ['http://127.0.0.1:40123', 'http://127.0.0.1:8081']).listen.map(
    ({ address }) => address,
  );
  test.strictSame(addresses, ['127.0.0.1:40123', '127.0.0.1:8081']);
  test.strictSame(pinPorts(two, []).listen, two.listen, 'as long as nothing listens, nothing changes');
  test.end();
});
