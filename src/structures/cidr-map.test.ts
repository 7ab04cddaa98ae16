import t from 'tap';
import { parseNetwork } from '../core/address.js';
import { createCidrMap } from './cidr-map.js';

function mapOf(...texts: string[]) {
  const map = createCidrMap<string>();
  for (const text of texts) map.set(parseNetwork(text)!, text);
  return map;
}
const any = () => true;

t.test('the narrowest network that holds the address is asked first, and the next where it does not fit', async (t) => {
  const map = mapOf('198.51.100.0/24', '198.51.100.7', '2001:db8::/32', '2001:db8:1:2::/64');
  t.equal(map.find('198.51.100.7', any), '198.51.100.7');
  t.equal(map.find('198.51.100.7', (text) => text.includes('/')), '198.51.100.0/24');
  t.equal(map.find('198.51.100.8', any), '198.51.100.0/24');
  t.equal(map.find('2001:db8:1:2::9', any), '2001:db8:1:2::/64');
  t.equal(map.find('2001:db8:1:3::9', any), '2001:db8::/32');
  for (const stranger of ['198.51.101.1', '2001:db9::1', 'no address', ''])
    t.equal(map.find(stranger, any), undefined, stranger);
});

t.test('what is removed is gone, and what is set again counts once', async (t) => {
  const map = mapOf('198.51.100.7', '198.51.100.7', '200.0.0.0/8', '2001:db8::/64');
  t.equal(map.size, 3);
  t.equal(map.delete(parseNetwork('198.51.100.7')!), true);
  t.equal(map.delete(parseNetwork('198.51.100.7')!), false);
  t.equal(map.delete(parseNetwork('2001:db8::/65')!), false);
  t.equal(map.find('198.51.100.7', any), undefined);
  t.equal(map.find('200.1.2.3', any), '200.0.0.0/8', 'addresses above 128.0.0.0 too');
  t.equal(map.delete(parseNetwork('2001:db8::/64')!), true);
  t.equal(map.size, 1);
});
