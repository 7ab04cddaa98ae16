/**
 * Public hard case E06, scaled to one in eight: fifty people behind one IPv4 address, one of them an
 * attacker, then an origin that restarts and everybody reconnecting at once.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bench, SQLI, type Bench } from '../support/case.js';
import type { Pair } from '../support/bytes.js';
import { EchoUpstream } from '../support/echo-upstream.js';
import { exchange, RawConnection, request, type Answer } from '../support/raw-client.js';

const PEOPLE = 50;
const SCALE = 8;
const sid = (at: number): string => `person-${at}-0123456789abcdef`;
const cookie = (at: number): Pair => ['Cookie', `theme=dark; sid=${sid(at)}`];

/** An origin that knows its people: whoever has no session of its own gets 401. */
function origin({ up }: Bench): void {
  up.keep = false;
  up.onHead = (seen, socket) => {
    const upgrade = (seen.header('upgrade') ?? '').toLowerCase() === 'websocket';
    if (upgrade) {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      return undefined;
    }
    const known = (seen.header('cookie') ?? '').includes('sid=person-');
    return `HTTP/1.1 ${known ? '200 OK' : '401 Unauthorized'}\r\nContent-Length: 2\r\n\r\nok`;
  };
}

async function call({ gate }: Bench, at: number, target = '/api/items'): Promise<Answer> {
  const headers: Pair[] = [cookie(at), ['User-Agent', `Mozilla/5.0 (person ${at}) Firefox/128.0`]];
  return exchange(gate.port, request({ target, headers }), { timeoutMs: 10_000 });
}

/** Everybody once a second, spread over it, for so many seconds. */
async function everyday(at: Bench, seconds: number): Promise<number[]> {
  const pending: Promise<number>[] = [];
  for (let tick = 0; tick < seconds; tick++) {
    for (let who = 0; who < PEOPLE; who++) {
      pending.push(call(at, who).then(({ status }) => status));
      await sleep(1000 / PEOPLE - 1);
    }
  }
  return Promise.all(pending);
}

async function attack(at: Bench, seconds: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let shot = 0; shot < seconds * 5; shot++) {
    statuses.push((await call(at, PEOPLE, `/api/items?q=${encodeURIComponent(SQLI)}`)).status);
    await sleep(200);
  }
  return statuses;
}

async function handshake({ gate }: Bench, at: number): Promise<RawConnection | number> {
  const connection = await RawConnection.open(gate.port);
  const headers: Pair[] = [
    cookie(at),
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ];
  await connection.send(request({ target: '/live', headers }));
  const answer = await connection.read({ interim: true, timeoutMs: 10_000 });
  if (answer.status === 101) return connection;
  connection.destroy();
  return answer.status;
}

const served = (statuses: readonly number[]): number =>
  statuses.filter((status) => status === 200 || status === 101).length;

/** Fifty handshakes and 150 calls within two seconds, from connections that the origin's end has cut. */
async function reconnect(test: Test, at: Bench): Promise<void> {
  for (const { socket } of at.up.connections) socket.destroy();
  const sockets: RawConnection[] = [];
  const statuses: Promise<number>[] = [];
  for (let who = 0; who < PEOPLE; who++) {
    statuses.push(
      handshake(at, who).then((opened) => {
        if (typeof opened === 'number') return opened;
        sockets.push(opened);
        return 101;
      }),
    );
    for (let n = 0; n < 3; n++) statuses.push(call(at, who).then(({ status }) => status));
    await sleep(2000 / PEOPLE - 2);
  }
  const all = await Promise.all(statuses);
  test.ok(served(all) >= all.length * 0.99, 'the burst is served', { served: served(all), of: all.length });
  const before = at.gate.events().length;
  for (let frame = 0; frame < 40; frame++)
    for (const socket of sockets) await socket.send(Buffer.from('8180000000000', 'hex'));
  await sleep(200);
  test.ok(at.gate.events().length - before <= all.length, 'frames are no requests');
  const again = await everyday(at, 2);
  test.equal(served(again), again.length, 'and do not count: everybody goes on');
  for (const socket of sockets) socket.destroy();
}

t.test('E06: shared address, with the config that the README recommends for one', async (test) => {
  const at = await bench(test, {
    workers: 2,
    limits: {
      addressFactor: Math.ceil(100 / SCALE),
      policies: [{ name: 'ingress', by: ['session', 'ip'], limit: '60/10s', burstAlarm: '30/5s' }],
    },
    reputation: { points: { refusal: 5 } },
  });
  origin(at);
  const attacking = attack(at, 8);
  const honest = await everyday(at, 6);
  test.ok(served(honest) >= honest.length * 0.99, 'from the first second on', {
    served: served(honest),
    of: honest.length,
  });
  await reconnect(test, at);
  const refused = await attacking;
  test.equal(served(refused), 0, 'no injection reached the origin');
  test.ok(refused.every((status) => status === 403), 'each by a rule', { refused: [...new Set(refused)] });
});

t.test('E06: shared address, with the shipped ingress by address', async (test) => {
  // One in eight: 60 in 10 s for fifty people at one a second is eight times too little. The minute between
  // two good answers, and for which eight sessions may begin to count, is shortened to two seconds.
  const at = await bench(test, { workers: 1, limits: { sharedAddress: { apart: '2s', growth: '8/2s' } } });
  origin(at);
  const first = await everyday(at, 3);
  test.ok(served(first) < first.length, 'at first the address is one client', {
    served: served(first),
    of: first.length,
  });
  const refusals = await Promise.all(Array.from({ length: 60 }, (_, who) => call(at, who % PEOPLE)));
  const limited = refusals.filter(({ status }) => status === 429);
  const waits = new Set(limited.map((answer) => Number(answer.header('retry-after'))));
  if (limited.length >= 20) test.ok(waits.size > 1, 'Retry-After is spread', { waits: [...waits] });
  await everyday(at, 8);
  const later = await everyday(at, 3);
  test.ok(served(later) >= later.length * 0.99, 'then its people are known, and all are served', {
    served: served(later),
    of: later.length,
  });
  const stranger = await exchange(at.gate.port, request({ target: '/' }));
  test.equal(stranger.status, 401, 'no ban of the address');
});

t.test('one client that has a session set on each visit stays one client', async (test) => {
  const at = await bench(test, { workers: 1, limits: {} });
  at.up.keep = false;
  let made = 0;
  at.up.onHead = (seen) => {
    const set = seen.header('cookie') === undefined ? `Set-Cookie: sid=minted-${made++}; Path=/\r\n` : '';
    return `HTTP/1.1 200 OK\r\n${set}Content-Length: 2\r\n\r\nok`;
  };
  const startMs = Date.now();
  let passed = 0;
  for (let round = 0; round < 150; round++) {
    const minted = await exchange(at.gate.port, request({ target: '/mint' }));
    const given = /sid=[^;]+/.exec(minted.header('set-cookie') ?? '')?.[0] ?? 'sid=none';
    const again = await exchange(at.gate.port, request({ target: '/', headers: [['Cookie', given]] }));
    passed += served([minted.status, again.status]);
  }
  const windows = Math.ceil((Date.now() - startMs) / 10_000);
  test.ok(passed <= 60 * windows, 'no more than the limit in each of its windows', { passed, windows });
});

t.test('a lid on an endpoint holds over its spellings and the hosts of a wildcard', async (test) => {
  const lid = { name: 'lid', match: { method: 'POST', path: '/sign-in' }, by: { all: ['site', 'path'] } };
  const up = await EchoUpstream.start();
  test.teardown(() => up.close());
  const at = await bench(test, {
    workers: 1,
    sites: [{ name: 'shop', hosts: ['*.shop.test'], upstreams: [up.url] }],
    limits: { policies: [{ name: 'ingress', enabled: false }, { ...lid, limit: '10/h' }] },
  });
  const spelled = ['/sign-in;v=', '/SIGN-in;v=', '/sign-in.json;v=', '//sign-in;v=', '/sign%2Din/;v='];
  const statuses: number[] = [];
  for (let n = 0; n < 40; n++) {
    const target = `${spelled[n % spelled.length]}${n}`;
    const sent = request({ method: 'POST', target, host: `h${n}.shop.test`, body: 'a=1' });
    const answer = await exchange(at.gate.port, sent);
    statuses.push(answer.status);
  }
  test.equal(served(statuses), 10, 'ten of forty', { statuses });
});
