/** A worker that is killed takes only its own requests along; fifty reloads under load take none. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { bench, passes, until, type Bench } from '../support/case.js';
import { ok } from '../support/echo-upstream.js';
import { fullConfig } from '../support/gate.js';
import { RawConnection, request } from '../support/raw-client.js';

type Tally = { served: number; failed: string[]; inFlightPeak: number };

/** Keeps `width` clients busy until `going` says no; each failure is told with its kind. */
function load({ gate }: Bench, width: number, going: () => boolean): { tally: Tally; done: Promise<void> } {
  const tally: Tally = { served: 0, failed: [], inFlightPeak: 0 };
  const client = async (): Promise<void> => {
    let connection: RawConnection | undefined;
    while (going()) {
      try {
        const reused = connection !== undefined && !connection.closed;
        if (!reused) connection = await RawConnection.open(gate.port);
        if (!connection) continue;
        await connection.send(request());
        const answer = await connection.read({ timeoutMs: 8000 });
        // A kept-alive connection that closes before a byte of an answer is the client's to try again (RFC
        // 9112, 9.3.1).
        if (answer.status === 0 && answer.closed && reused && !connection.resetByPeer) connection = undefined;
        else if (answer.status === 200 && answer.complete) tally.served += 1;
        else
          tally.failed.push(
            `status ${answer.status}${answer.timedOut ? ' timed out' : ''}${answer.closed ? ' closed' : ''}`,
          );
        if (answer.closed || answer.header('connection') === 'close') connection = undefined;
      } catch (error) {
        tally.failed.push(String(error));
        connection = undefined;
      }
    }
    connection?.destroy();
  };
  return { tally, done: Promise.all(Array.from({ length: width }, client)).then(() => undefined) };
}

t.test('kill -9 of a worker under load: only its requests in flight fail', async (test) => {
  const at = await bench(test, { workers: 3 });
  at.up.keep = false;
  at.up.script = async () => {
    await sleep(5);
    return ok('fine');
  };
  let going = true;
  const width = 24;
  const { tally, done } = load(at, width, () => going);
  await sleep(800);
  const [victim] = at.gate.workers();
  test.equal(at.gate.workers().length, 3, 'three workers');
  if (victim !== undefined) process.kill(victim, 'SIGKILL');
  const back = await until(() => at.gate.workers().filter((pid) => pid !== victim).length === 3, 8000);
  await sleep(800);
  going = false;
  await done;
  test.ok(back, 'the worker is replaced');
  test.ok(tally.failed.length <= width, 'no more fail than can have been in flight', {
    failed: tally.failed.slice(0, 20),
  });
  test.ok(tally.served > width, 'the others are served', { served: tally.served });
  await passes(test, 'after that', at, {});
});

t.test('fifty reloads under load: no failure', async (test) => {
  const at = await bench(test, { workers: 2 });
  at.up.keep = false;
  let going = true;
  const { tally, done } = load(at, 8, () => going);
  await sleep(300);
  for (let n = 0; n < 50; n++) {
    at.gate.writeConfig(fullConfig({ trustedProxies: [`10.0.${n}.0/24`] }, at.up.url));
    at.gate.reload();
    await sleep(120);
  }
  await sleep(500);
  going = false;
  await done;
  test.strictSame(tally.failed.slice(0, 10), [], 'zero failures');
  test.ok(tally.served > 50, 'served all along', { served: tally.served });
});

t.test('a reload takes effect; a bad file changes nothing', async (test) => {
  const at = await bench(test, { workers: 2 });
  const served = async (): Promise<number> => {
    const connection = await RawConnection.open(at.gate.port);
    await connection.send(request({ host: 'new.test' }));
    const { status } = await connection.read();
    connection.destroy();
    return status;
  };
  const wait = async (status: number): Promise<number> => {
    let got = 0;
    for (let n = 0; n < 40 && got !== status; n++, await sleep(100)) got = await served();
    return got;
  };
  test.equal(await served(), 421, 'the host is unknown');
  const sites = [{ name: 'shop', hosts: ['app.test', 'new.test'], upstreams: [at.up.url] }];
  at.gate.writeConfig(fullConfig({ workers: 2, sites }, undefined));
  at.gate.reload();
  test.equal(await wait(200), 200, 'known after the reload');
  at.gate.writeConfig('sites: 7\nnonsense: true\n');
  at.gate.reload();
  await sleep(1000);
  test.equal(await served(), 200, 'a bad file changes nothing');
  test.equal(at.gate.exit, undefined, 'the gate runs on');
  const told = [...at.gate.lines, at.gate.stderr].some((line) => /nonsense|sites/.test(line));
  test.ok(told, 'and it is said what is wrong');
});

t.test('SIGTERM drains: requests in flight end, then the gate leaves', async (test) => {
  const at = await bench(test, { workers: 2, timeouts: { drain: '5s' } });
  at.up.script = async () => {
    await sleep(700);
    return ok('whole');
  };
  const clients = await Promise.all(Array.from({ length: 10 }, () => RawConnection.open(at.gate.port)));
  for (const client of clients) await client.send(request());
  await until(() => at.up.completed === 10);
  at.gate.child.kill('SIGTERM');
  const answers = await Promise.all(clients.map((client) => client.read({ timeoutMs: 4000 })));
  test.equal(answers.filter(({ status }) => status === 200).length, 10, 'all ten are answered');
  test.ok(await until(() => at.gate.exit !== undefined, 6000), 'the gate leaves');
  test.equal(at.gate.exit?.code, 0, 'with exit code 0');
});
