import t from 'tap';
import { gatewaysIn, resolversIn } from './xdp-routers.js';

t.test('the gateways of default routes are read, others are not', (t) => {
  const ipv4 = [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    'eth0\t0000000A\t0900A8C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0',
    'tun0\t00000000\t00000000\t0001\t0\t0\t9\t00000000\t0\t0\t0',
  ].join('\n');
  const zero = '0'.repeat(32);
  const ipv6 = [
    `${zero} 00 ${zero} 00 20010db8000000000000000000000001 00000400 00000001 00000000 00000003     eth0`,
    `20010db8000000000000000000000000 40 ${zero} 00 ${zero} 00000100 00000001 00000000 00000001     eth0`,
    `${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo`,
  ].join('\n');
  t.same(gatewaysIn(ipv4, ipv6), ['192.168.0.1', '2001:db8::1']);
  t.same(gatewaysIn('', 'nonsense\n'), []);
  t.end();
});

t.test('resolvers are read from resolv.conf', (t) => {
  const lines = ['# nameserver 192.0.2.1', 'search a.test', 'nameserver 192.0.2.53', 'nameserver fe80::1%eth0'];
  const text = [...lines, 'nameserver x', ''].join('\n');
  t.same(resolversIn(text), ['192.0.2.53', 'fe80::1']);
  t.end();
});
