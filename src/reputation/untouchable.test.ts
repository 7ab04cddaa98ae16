import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { parseNetwork } from '../core/address.js';
import { systemClock } from '../core/clock.js';
import { reputationSection } from './config.js';
import { createUntouchable } from './untouchable.js';

t.test('the allowlist of the file and our own addresses are untouchable, nobody else', async (test) => {
  const baseDir = test.testdir({ 'allow.txt': '198.51.100.0/24\n2001:db8:a::/48\n' });
  const ownAddresses = ['192.0.2.9'];
  const config = reputationSection.parse({ allowlist: 'allow.txt', poll: '50ms', ownAddresses });
  const deps = { baseDir, clock: systemClock, log: () => undefined, ownAddresses: ['2001:db8:5::5'] };
  const untouchable = createUntouchable(config, deps);
  const allowed = (text: string): boolean => untouchable.isAllowed(parseNetwork(text)!);
  const own = (text: string): boolean => untouchable.isOwn(parseNetwork(text)!);
  test.notOk(allowed('198.51.100.7'), 'nothing is read before the start');
  await untouchable.start();
  test.ok(allowed('198.51.100.7') && allowed('2001:db8:a:1::/64'));
  test.notOk(allowed('203.0.113.1') || allowed('198.51.0.0/16'));
  test.ok(own('192.0.2.9') && own('192.0.2.0/24') && own('2001:db8:5::/64'));
  test.notOk(own('192.0.2.10'));
  writeFileSync(join(baseDir, 'allow.txt'), '203.0.113.0/24\n');
  for (let tries = 0; tries < 200 && !allowed('203.0.113.1'); tries++) await sleep(25);
  test.ok(allowed('203.0.113.1'), 'a change is followed');
  await untouchable.close();
});
