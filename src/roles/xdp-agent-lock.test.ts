import t from 'tap';
import { createAgentLock } from './xdp-agent-lock.js';

t.test('one interface has one agent; its end makes room', { skip: process.platform !== 'linux' }, async (t) => {
  const name = `t${process.pid}`;
  const [first, second] = [createAgentLock(name), createAgentLock(name)];
  await first.take();
  await t.rejects(second.take(), { code: 'XDP_SECOND_AGENT' });
  const other = createAgentLock(`${name}o`);
  await other.take();
  other.release();
  first.release();
  await second.take();
  second.release();
});
