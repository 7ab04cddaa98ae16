/** The page on decision events names every field; a gate starts and reloads while its bus is away. */
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { DecisionEvent, Step } from '../../src/core/event.js';
import { eventFor } from '../../src/telemetry/testing.js';
import { until } from '../support/case.js';
import { ROOT, startGate } from '../support/gate.js';

const page = readFileSync(join(ROOT, 'deploy/decision-event.md'), 'utf8');
const rows = page.split('\n').filter((line) => /^\| `/.test(line));
/** `a.b`, `steps[].stage`; what an object under a field is described with is in its line. */
const has = (path: string): boolean => {
  const names = (row: string, name: string | undefined): boolean => row.includes(`\`${name}\``);
  const [parent, field] = path.split(/\.(?=[^.]*$)/);
  return rows.some((row) => names(row, path) || (names(row, parent) && names(row, field)));
};

function pathsOf(value: unknown, at: string): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => pathsOf(each, `${at}[]`));
  if (typeof value !== 'object' || value === null) return [at];
  const inner = at === '' ? '' : `${at}.`;
  return Object.entries(value).flatMap(([key, each]) => pathsOf(each, `${inner}${key}`));
}

/** What a finding holds in turn is for people; its first level is described. */
const fields = (event: DecisionEvent): string[] =>
  [...new Set(pathsOf(event, ''))]
    .map((path) => path.replace(/^(steps\[\]\.findings\[\]\.\w+)\W.*$/, '$1').replace(/^ruleIds\[\]$/, 'ruleIds'))
    .map((path) => path.replace('findings[].', 'findings.'));

type Full<T> = {
  [K in keyof T]-?: NonNullable<T[K]> extends readonly unknown[] ? T[K] : Full<NonNullable<T[K]>>;
};

t.test('the page names every field that the type has', async (t) => {
  const step: Full<Omit<Step, 'findings'>> = {
    stage: 'rules',
    before: 0,
    after: 5,
    durationUs: 1,
    skipped: 'no body',
  };
  const full: Full<Omit<DecisionEvent, 'steps' | 'ruleIds'>> = {
    ...(eventFor() as Full<DecisionEvent>),
    client: {
      ip: '192.0.2.1',
      key: '192.0.2.1',
      asn: 1,
      userAgent: 'a',
      session: 's',
      apiKey: 'k',
      user: 'u',
      headerHash: 'h',
      ja4: 'j',
    },
    wouldBe: 'block',
    upstream: { address: 'a', status: 200, durationUs: 1, attempts: 1, error: 'reset' },
    clientAborted: true,
    delayedMs: 1,
    near: { policy: 'p', by: 'ip', used: 1, limit: 1, windowMs: 1 },
    bodyInspection: 'whole',
    error: 'e',
  };
  const event = { ...full, steps: [{ ...step, findings: [] }], ruleIds: ['X'] } as DecisionEvent;
  for (const path of fields(event)) t.ok(has(path), path);
});

t.test('a gate starts, judges and is checked while its bus is away', async (t) => {
  const origin = createServer((_, answer) => answer.end('ok'));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  t.teardown(() => origin.close());
  const upstream = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const kafka = { brokers: ['127.0.0.1:1'], closing: '100ms' };
  const gate = await startGate({ kafka }, { upstream });
  t.teardown(() => gate.stop());
  const ask = async (path: string): Promise<number> => {
    const headers = { host: 'app.test' };
    const answer = await fetch(`http://127.0.0.1:${gate.port}${path}`, { headers });
    await answer.text();
    return answer.status;
  };
  t.equal((await gate.admin('/readyz')).status, 200, 'it is ready');
  await ask('/plain');
  await ask(`/?q=${encodeURIComponent("' or 1=1 --")}`);
  t.ok(await until(() => gate.decisions.length >= 2), 'it judges');
  for (const event of gate.decisions)
    for (const path of fields(event)) t.ok(has(path), `${event.action}: the page names ${path}`);
  const warned = (): boolean => gate.lines.some((line) => line.includes('KAFKA_UNREACHABLE'));
  t.ok(await until(warned, 20_000), 'the log says that the bus is away');
  const check = ['dist/src/main.js', 'check', '--config', gate.configFile];
  const code = await new Promise((done) => {
    execFile(process.execPath, check, { cwd: ROOT }, (error) => done(error?.code ?? 0));
  });
  t.equal(code, 0, '`tidegate check` is content');
  gate.reload();
  const reloaded = (): boolean => gate.lines.some((line) => line.includes('"msg":"reloaded"'));
  t.ok(await until(reloaded, 20_000), 'it reloads');
  gate.child.kill('SIGTERM');
  t.ok(await until(() => gate.exit !== undefined, 20_000), 'it ends');
  t.equal(gate.exit?.code, 0);
  t.equal(gate.stderr, '', 'nothing unhandled');
  t.ok(gate.lines.some((line) => line.includes('lost at the end')), 'and states the loss');
});
