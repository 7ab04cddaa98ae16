import t from 'tap';
import { FIXED_SETTINGS, type KernelStatus } from '../xdp/answers.js';
import { printXdpStatus } from './xdp-print.js';

const status: KernelStatus = {
  attached: true,
  mode: 'driver',
  linkId: 1,
  settings: {
    ...FIXED_SETTINGS,
    ...{ dryRun: false, packetsPerSecond: 10_000, synPerSecond: 0, deepVlan: 'drop', management: [] },
  },
  generation: 7,
  bans: 12,
  allowed: 3,
  management: 1,
  memoryBytes: 3 * 1024 ** 2,
  refused: 1,
  replaced: 0,
  leftOut: 0,
  counters: [
    { group: 'dropped', name: 'banned', packets: 5, bytes: 300 },
    { group: 'dropped', name: 'synCap', packets: 0, bytes: 0 },
  ],
};

t.test('mode, caps, lists and counters that moved are shown', (t) => {
  const text = printXdpStatus({ interface: 'eth0', status });
  t.match(text, /^eth0: attached in DRIVER mode$/m);
  t.match(text, '10000 packets a second, no cap on SYNs');
  t.match(text, '12 bans, 3 allowed, 1 management (generation 7)');
  t.match(text, /^dropped banned +5 +300$/m);
  t.notMatch(text, 'synCap');
  t.end();
});

t.test('a dry run, a lost interface, no packet and no filter are said plainly', (t) => {
  const dry = { ...status, settings: { ...status.settings, dryRun: true }, attached: false, counters: [] };
  const text = printXdpStatus({ interface: 'eth0', status: dry });
  t.match(text, 'NOT attached, the interface went away, DRY RUN: nothing is dropped');
  t.match(text, 'no packet yet');
  t.match(printXdpStatus({ interface: 'eth0', status: undefined }), 'no filter on eth0');
  t.end();
});
