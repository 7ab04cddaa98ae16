import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { DecisionEvent } from '../core/event.js';
import { logSection } from './config.js';
import type { EventLog } from './log.js';
import type { Metrics } from './metrics.js';
import { createTelemetry } from './telemetry.js';
import { eventFor } from './testing.js';

function parts(record: (event: DecisionEvent) => void = () => undefined) {
  const lines: string[] = [];
  const notable: DecisionEvent[] = [];
  const log = { line: (text: string) => void lines.push(text) } as unknown as EventLog;
  const metrics = { record } as unknown as Metrics;
  return {
    lines,
    notable,
    deps: { log, metrics, notable: (event: DecisionEvent) => void notable.push(event) },
  };
}

t.test('nothing is written before the caller is done; then everything, in order', async (test) => {
  const { lines, notable, deps } = parts();
  const telemetry = createTelemetry(logSection.parse({}), deps);
  for (let n = 0; n < 200; n++)
    telemetry.emit(eventFor({ requestId: `r${n}`, action: n % 2 === 0 ? 'pass' : 'block' }));
  test.equal(lines.length, 0);
  await sleep(50);
  test.same(
    lines.map((line) => (JSON.parse(line) as DecisionEvent).requestId),
    Array.from({ length: 200 }, (_, n) => `r${n}`),
  );
  test.equal(notable.length, 100, 'what did not simply pass is told');
  test.equal(telemetry.dropped(), 0);
});

t.test('a full queue drops and counts', async (test) => {
  const { lines, deps } = parts();
  const telemetry = createTelemetry(logSection.parse({ queueEvents: 16 }), deps);
  for (let n = 0; n < 20; n++) telemetry.emit(eventFor());
  test.equal(telemetry.dropped(), 4);
  telemetry.flush();
  test.equal(lines.length, 16);
});

t.test('passes can be left out of the log, never refusals', async (test) => {
  const { lines, deps } = parts();
  const telemetry = createTelemetry(logSection.parse({ passed: false }), deps);
  telemetry.emit(eventFor());
  telemetry.emit(eventFor({ action: 'block' }));
  telemetry.flush();
  test.equal(lines.length, 1);
});

t.test('an event that cannot be written down is counted, the next one is written', async (test) => {
  const { lines, deps } = parts((event) => {
    if (event.site === 'bad') throw new Error('no');
  });
  const telemetry = createTelemetry(logSection.parse({}), deps);
  for (const site of ['bad', 'good']) telemetry.emit(eventFor({ site }));
  await sleep(20);
  test.equal(lines.length, 1);
  test.equal(telemetry.dropped(), 1);
});

t.test('every event is published, with its line where that is asked for', async (test) => {
  for (const withLine of [true, false]) {
    const { lines, deps } = parts();
    const published: (readonly [string, string | undefined])[] = [];
    const publish = {
      withLine,
      send: (event: DecisionEvent, line: string | undefined) => void published.push([event.requestId, line]),
    };
    const telemetry = createTelemetry(logSection.parse({ passed: false }), { ...deps, publish });
    telemetry.emit(eventFor({ requestId: 'passed' }));
    telemetry.emit(eventFor({ requestId: 'refused', action: 'block' }));
    telemetry.flush();
    test.equal(lines.length, 1, 'the log leaves out what it is told to');
    test.same(
      published.map(([id]) => id),
      ['passed', 'refused'],
    );
    test.equal(published[1]![1], lines[0], 'the line is written once');
    test.equal(typeof published[0]![1], withLine ? 'string' : 'undefined');
  }
});
