/** Finding a decision in a log. */
import t from 'tap';
import { Fault } from '../core/errors.js';
import { lastEvent } from './explain.js';

const event = (requestId: string) => ({
  v: 1,
  time: 't',
  requestId,
  site: 's',
  host: 'h',
  method: 'GET',
  path: '/',
  action: 'pass',
  reason: '',
  client: { ip: '192.0.2.1', key: '192.0.2.1' },
  ruleIds: [],
  steps: [],
  durationUs: { total: 1 },
});
const line = (value: unknown) => JSON.stringify(value);

const cases: [name: string, text: string, requestId: string | undefined][] = [
  ['one line is that decision', line(event('a')), 'a'],
  ['of several the last counts', `${line(event('a'))}\n${line(event('b'))}\n`, 'b'],
  [
    'lines between that are no decisions are passed by',
    `${line(event('a'))}\n{"msg":"reloaded"}\nplain\n`,
    'a',
  ],
  ['an event over several lines is read too', JSON.stringify(event('a'), undefined, 2), 'a'],
  ['a log without decisions is a fault', '{"msg":"ready"}\n', undefined],
  ['an empty file is a fault', '', undefined],
];
for (const [name, text, requestId] of cases) {
  if (requestId === undefined) t.throws(() => lastEvent(text), Fault, name);
  else t.equal(lastEvent(text).requestId, requestId, name);
}
