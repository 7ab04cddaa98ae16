/** The whole loop with default thresholds and real clocks: decisions, patterns, bans, refusals at stage 1. */
import t from 'tap';
import { bench, JSON_TYPE, until, type Bench } from '../support/case.js';
import { exchange, request } from '../support/raw-client.js';

const ATTACKERS = Array.from({ length: 58 }, (_, n) => `198.51.${100 + (n % 3)}.${n + 1}`);
const OFFICE = '203.0.113.20';
/** The limits as they are without a config: five logins a minute for each address. */
const CONFIG = { trustedProxies: ['127.0.0.1'], limits: {} };
const BANNED_MS = 10_000;

type Login = Readonly<{ ip: string; user: string; password: string; agent?: string }>;

async function login(
  { gate }: Bench,
  { ip, user, password, agent = 'Mozilla/5.0 (X11)' }: Login,
): Promise<number> {
  const answer = await exchange(
    gate.port,
    request({
      method: 'POST',
      target: '/login',
      headers: [JSON_TYPE, ['X-Forwarded-For', ip], ['User-Agent', agent]],
      body: JSON.stringify({ username: user, password }),
    }),
  );
  return answer.status;
}

async function page({ gate }: Bench, ip: string): Promise<number> {
  const headers: [string, string][] = [
    ['X-Forwarded-For', ip],
    ['User-Agent', 'Mozilla/5.0 (X11)'],
  ];
  return (await exchange(gate.port, request({ target: '/', headers }))).status;
}

async function start(test: Parameters<typeof bench>[0]): Promise<Bench> {
  const at = await bench(test, CONFIG);
  at.up.script = (seen) => {
    const fails = seen.target === '/login' && !seen.body.includes('"right"');
    return `HTTP/1.1 ${fails ? '401 Unauthorized' : '200 OK'}\r\nContent-Length: 2\r\n\r\nok`;
  };
  return at;
}

t.test(
  '58 addresses with five failed logins each are banned within ten seconds, an office is not',
  async (test) => {
    const at = await start(test);
    const office = async (round: number): Promise<void> => {
      // Somebody mistypes now and then, and the pages are looked at.
      if (round < 2) test.equal(await login(at, { ip: OFFICE, user: `o${round}`, password: 'wrong' }), 401);
      test.equal(await login(at, { ip: OFFICE, user: `o${round}`, password: 'right' }), 200);
      for (let n = 0; n < 10; n++) test.equal(await page(at, OFFICE), 200);
    };
    for (let round = 0; round < 5; round++) {
      if (round < 2) await office(round);
      const statuses = await Promise.all(
        ATTACKERS.map((ip, n) => login(at, { ip, user: `u${n}-${round}`, password: 'wrong' })),
      );
      // Four failures are enough to tell: the last ones may find themselves banned.
      const fits = (status: number): boolean => status === 401 || (round >= 4 && status === 403);
      test.ok(statuses.every(fits), `round ${round + 1}: each below its own limit`, { statuses });
    }
    const lastMs = Date.now();
    const made = async (): Promise<number> => {
      const text = await (await at.gate.admin('/metrics')).text();
      return Number(/correlator_bans\{outcome="made"\} (\d+)/.exec(text)?.[1] ?? 0);
    };
    test.ok(await until(async () => (await made()) >= 58, BANNED_MS), 'in time', {
      afterMs: Date.now() - lastMs,
    });
    const next = await Promise.all(ATTACKERS.map((ip) => page(at, ip)));
    test.equal(next.filter((status) => status === 403).length, 58, 'the next request of each is refused');
    const event = await at.gate.event(({ client, status }) => client.ip === ATTACKERS[0] && status === 403);
    test.match(event.steps[0], { stage: 'reputation', findings: [{ kind: 'deny' }] });
    test.match(JSON.stringify(event.steps[0]), /\d+ addresses failed/, 'the reason says what was found');
    test.equal(await page(at, OFFICE), 200, 'the office is not');
    test.equal(await login(at, { ip: OFFICE, user: 'o9', password: 'right' }), 200);
  },
);
