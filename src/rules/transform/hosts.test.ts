import t from 'tap';
import { hosts } from './hosts.js';

t.test('a host reads as the address that a resolver makes of it', (t) => {
  const cases: [string, string][] = [
    ['http://0251.254.169.254/', 'http://169.254.169.254/'],
    ['http://169.254.43518/', 'http://169.254.169.254/'],
    ['http://169.16689662/x', 'http://169.254.169.254/x'],
    ['http://2852039166:80/', 'http://169.254.169.254:80/'],
    ['http://0xA9.0xfe.169.254./', 'http://169.254.169.254/'],
    ['http://①②⑦.0.0.1/', 'http://127.0.0.1/'],
    ['http://169。254。169。254/', 'http://169.254.169.254/'],
    ['https://user:pw@0x7f.1:6379/', 'https://127.0.0.1:6379/'],
    ['http://[::ffff:a9fe:a9fe]/', 'http://169.254.169.254/'],
    ['http://[0:0:0:0:0:ffff:10.0.0.5]:2375/', 'http://10.0.0.5:2375/'],
    ['http://[::1]/', 'http://127.0.0.1/'],
    ['http://[fd00:0ec2::254]/', 'http://[fd00:ec2:0:0:0:0:0:254]/'],
    ['http://a9fea9fe.nip.io/', 'http://169.254.169.254/'],
    ['http://app-10-0-0-5.sslip.io/', 'http://10.0.0.5/'],
    ['//0x7f000001/a', '//127.0.0.1/a'],
  ];
  for (const [given, wanted] of cases) t.equal(hosts.apply(given), wanted, given);
  t.end();
});

t.test('everything else stays', (t) => {
  for (const text of ['https://example.com/a?b=1', 'http://[nonsense]/', 'http://1.2.3.4.example/', 'a // b', 'x'])
    t.equal(hosts.apply(text), text, text);
  t.end();
});
