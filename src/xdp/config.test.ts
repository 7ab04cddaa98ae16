import t from 'tap';
import { xdpSection } from './config.js';

const least = { interface: 'eth0', mode: 'driver' };

t.test('interface and mode are asked for, the rest has defaults', (t) => {
  const read = xdpSection.parse(least);
  t.match(read, {
    pin: '/sys/fs/bpf/tidegate',
    caps: { packetsPerSecond: 10_000, synPerSecond: 200 },
    every: 30_000,
    dryRun: false,
    deepVlan: 'drop',
    neighbours: true,
  });
  t.equal(xdpSection.parse(undefined), undefined, 'and the section may be absent');
  t.end();
});

t.test('what could not work is refused', (t) => {
  const cases: [name: string, value: unknown][] = [
    ['no mode', { interface: 'eth0' }],
    ['a mode to guess', { interface: 'eth0', mode: 'auto' }],
    ['no interface', { mode: 'driver' }],
    ['an interface with a slash', { ...least, interface: '../eth0' }],
    ['an interface name too long for the kernel', { ...least, interface: 'a'.repeat(16) }],
    ['a relative pin', { ...least, pin: 'bpf' }],
    ['metrics for everybody', { ...least, listen: '0.0.0.0:9093' }],
    ['a management network that is none', { ...least, management: ['office'] }],
    ['management of everybody', { ...least, management: ['0.0.0.0/0'] }],
    ['of everybody in IPv6', { ...least, management: ['::/0'] }],
    ['a cap beyond the loader', { ...least, caps: { synPerSecond: 16_000_001 } }],
    ['half a deepVlan', { ...least, deepVlan: 'maybe' }],
    ['no room', { ...least, entries: 0 }],
    ['a negative cap', { ...least, caps: { packetsPerSecond: -1 } }],
  ];
  for (const [name, value] of cases) t.notOk(xdpSection.safeParse(value).success, name);
  const most = { ...least, caps: { synPerSecond: 16_000_000 }, management: ['128.0.0.0/1', '2000::/3'] };
  t.ok(xdpSection.safeParse(most).success, 'the loader takes as much');
  t.end();
});
