import t from 'tap';
import { createNetworkSet } from '../core/address.js';
import { clientOf } from './client-address.js';

t.test('a client seen through NAT64 counts as its IPv4 address, not as everybody behind it', (t) => {
  const settings = { trusted: createNetworkSet(['127.0.0.1']), ipv6Prefix: 64 };
  const direct = clientOf({ peer: '64:ff9b::c612:101', proxied: undefined }, undefined, settings);
  t.match(direct, { ip: '198.18.1.1', key: '198.18.1.1', peer: '64:ff9b::c612:101', viaProxy: false });
  const far = clientOf({ peer: '127.0.0.1', proxied: undefined }, '64:ff9b:0::c612:103', settings);
  t.match(far, { ip: '198.18.1.3', key: '198.18.1.3', viaProxy: true });
  t.end();
});
