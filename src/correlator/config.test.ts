import t from 'tap';
import { detectorShape } from './common.js';
import { correlatorSection } from './config.js';
import { z } from 'zod';

t.test('without a section the correlator looks, every two seconds', async (test) => {
  test.match(correlatorSection.parse(undefined), { enabled: true, evaluateEvery: 2_000, lateness: 600_000 });
});

t.test('a detector is enforced unless the config says else; other words are refused', async (test) => {
  const section = z.strictObject(detectorShape(0.8));
  test.same(section.parse({}), { mode: 'enforce', banAt: 0.8 });
  test.equal(section.parse({ mode: 'off' }).mode, 'off');
  test.notOk(section.safeParse({ mode: 'on' }).success);
});
