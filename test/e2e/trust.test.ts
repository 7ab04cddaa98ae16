/** Whose word counts about the client's address. */
import t from 'tap';
import { bench } from '../support/case.js';
import { exchange, request } from '../support/raw-client.js';

const LIMITS = {
  policies: [
    { name: 'ingress', enabled: false },
    { name: 'api', match: { path: '/**' }, by: ['ip'], limit: '5/min', exact: true },
  ],
};
const FILES = { 'block.txt': '1.2.3.4\n2001:db8:5:5::/64\n' };
const BASE = { limits: LIMITS, reputation: { blocklist: 'block.txt' } };

t.test('X-Forwarded-For from an untrusted peer changes nothing', async (test) => {
  const at = await bench(test, BASE, { files: FILES });
  const send = async (ip: string) =>
    (await exchange(at.gate.port, request({ headers: [['X-Forwarded-For', ip]] }))).status;
  test.equal(await send('1.2.3.4'), 200, 'a listed address in it is not the client');
  const statuses: number[] = [];
  for (let n = 0; n < 8; n++) statuses.push(await send(`9.9.9.${n}`));
  test.strictSame(statuses, [200, 200, 200, 200, 429, 429, 429, 429], 'one peer is one client');
});

t.test('addresses are folded to one form before lists and limits', async (test) => {
  const at = await bench(test, { ...BASE, trustedProxies: ['127.0.0.1'] }, { files: FILES });
  const send = async (ip: string) =>
    (await exchange(at.gate.port, request({ headers: [['X-Forwarded-For', ip]] }))).status;
  for (const ip of ['1.2.3.4', '::ffff:1.2.3.4', '::ffff:102:304', '0:0:0:0:0:ffff:1.2.3.4', '1.2.3.4:80']) {
    test.equal(await send(ip), 403, `${ip} is 1.2.3.4`);
  }
  const mixed: number[] = [];
  for (let n = 0; n < 8; n++) mixed.push(await send(n % 2 ? '::ffff:5.6.7.8' : '5.6.7.8'));
  test.equal(mixed.filter((status) => status === 200).length, 5, 'both spellings share one limit');
  const prefix: number[] = [];
  for (let n = 1; n <= 8; n++) prefix.push(await send(`2001:db8:6:6::${n}`));
  test.equal(prefix.filter((status) => status === 200).length, 5, 'one /64 shares one limit');
  test.equal(await send('2001:DB8:6:7:0:0:0:1'), 200, 'the next /64 has its own');
  test.equal(await send('2001:db8:5:5:ffff::1'), 403, 'a listed /64');
});
