import t from 'tap';
import { proxyShape, type ProxyConfig } from './config.js';
import { createUpstreams } from './upstream.js';
import { z } from 'zod';

function settings(upstreams: string[], over: object = {}): ProxyConfig {
  return z.strictObject(proxyShape).parse({ sites: [{ name: 'app', hosts: ['*'], upstreams }], ...over });
}

const quiet = { onProblem: () => undefined };

t.test('addresses take turns, failing ones are set aside and come back', async (t) => {
  let now = 0;
  const config = settings(['http://127.0.0.1:1', 'http://127.0.0.2:1'], {
    health: { failures: 2, backoff: '1s' },
  });
  const set = createUpstreams(config, { resolver: async () => [], nowMs: () => now, ...quiet });
  await set.start();
  t.teardown(() => set.close());
  const [a, b] = [set.pick('app', [])!, set.pick('app', [])!];
  t.not(a.label, b.label, 'round robin');
  set.failed(a);
  t.ok([set.pick('app', []), set.pick('app', [])].includes(a), 'one failure is forgiven');
  set.failed(a);
  t.same([set.pick('app', []), set.pick('app', [])], [b, b], 'two in a row are not');
  now = 1001;
  t.ok([set.pick('app', []), set.pick('app', [])].includes(a), 'it is tried again after the back-off');
  t.equal(set.pick('app', [a]), b, 'a retry goes elsewhere');
  t.equal(set.pick('nobody', []), undefined);
});

t.test('a name follows its addresses and keeps the last good ones', async (t) => {
  let answer: readonly string[] | Error = ['127.0.0.1'];
  const resolver = async (): Promise<readonly string[]> => {
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const set = createUpstreams(settings(['http://up.test:1'], { dns: { refresh: 100 } }), {
    resolver,
    nowMs: Date.now,
    ...quiet,
  });
  await set.start();
  t.teardown(() => set.close());
  const labels = () => set.addresses('app').map((address) => address.label);
  const settle = () => new Promise((resolve) => setTimeout(resolve, 260));
  t.same(labels(), ['127.0.0.1:1']);
  answer = ['127.0.0.2'];
  await settle();
  t.same(labels(), ['127.0.0.2:1']);
  answer = new Error('SERVFAIL');
  await settle();
  t.same(labels(), ['127.0.0.2:1'], 'a failing resolver changes nothing');
  answer = ['::1', '127.0.0.3'];
  await settle();
  t.match(set.pick('app', []), { ip: '127.0.0.3' }, 'IPv4 first where a name has both');
});
