/**
 * Pipeline time of an allowed GET and a 1 KB JSON POST by stage, in one process without network.
 * Each request has a target of its own: those found clean before are remembered, and would flatter the rules.
 */
import path from 'node:path';
import { systemClock } from '../src/core/clock.js';
import type { RequestFacts } from '../src/core/request.js';
import { parseConfig } from '../src/config/load.js';
import { memoryStore } from '../src/limits/stores/memory.js';
import { buildFacts } from '../src/proxy/facts.js';
import { buildEngines } from '../src/roles/engines.js';

const ROUNDS = 40_000;
const root = path.resolve(import.meta.dirname, '../..');
const BROWSER = [
  'Host',
  'app.test',
  'User-Agent',
  'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0',
  'Accept',
  'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'Accept-Language',
  'en-US,en;q=0.5',
  'Accept-Encoding',
  'gzip, deflate, br',
  'Referer',
  'http://app.test/products',
  'Cookie',
  'sid=0123456789abcdef; theme=dark',
  'Sec-Fetch-Dest',
  'document',
  'Sec-Fetch-Mode',
  'navigate',
  'Sec-Fetch-Site',
  'same-origin',
];
const BODY = Buffer.from(
  JSON.stringify(
    Object.fromEntries(
      Array.from({ length: 8 }, (_, i) => [`field${i}`, `the quick brown fox ${i} `.repeat(5)]),
    ),
  ),
);

const median = (values: number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

async function main(): Promise<void> {
  const text = `
sites: [{ name: bench, hosts: ["*"], upstreams: ["http://127.0.0.1:9"] }]
limits:
  policies:
    - { name: ingress, match: { path: "/**" }, by: [ip], limit: 1000000/1s }
reputation: { asn: { database: deploy/demo/asn-sample.mmdb } }
`;
  const config = parseConfig(text, path.join(root, 'bench.yaml'));
  const store = memoryStore({ clock: systemClock });
  const engines = await buildEngines(config, {
    store,
    channel: undefined,
    clock: systemClock,
    log: () => undefined,
    hashKey: 'bench',
  });
  const { snapshot } = engines;
  const facts = (round: number, post: boolean): RequestFacts =>
    buildFacts(
      {
        requestId: 'r',
        receivedAtMs: Date.now(),
        method: post ? 'POST' : 'GET',
        target: `/products/${round}?page=${round % 90}&sort=price`,
        httpVersion: '1.1',
        peer: `198.51.100.${round % 250}`,
        proxied: undefined,
        scheme: 'http',
        rawHeaders: post
          ? [...BROWSER, 'Content-Type', 'application/json', 'Content-Length', String(BODY.length)]
          : BROWSER,
      },
      snapshot.settings,
    ) as RequestFacts;
  process.stdout.write(
    '\n| pipeline, embedded, one process | median µs | p99 µs | reputation | limits | headers | rules |\n|---|---|---|---|---|---|---|\n',
  );
  for (const post of [false, true]) {
    const totals: number[] = [];
    const stages: number[][] = [[], [], [], []];
    for (let round = 0; round < ROUNDS; round++) {
      const request = facts(round, post);
      const startedMs = performance.now();
      const run = snapshot.pipeline.open(request);
      await snapshot.pipeline.head(run);
      if (post) {
        const inspector = snapshot.rules.openBody(request);
        const findings = [...(await inspector.write(BODY)), ...(await inspector.end())];
        const field = (name: string): string | undefined => inspector.field(name);
        await snapshot.pipeline.body(run, { findings, field, identified: true });
      }
      if (round < ROUNDS / 4) continue;
      totals.push((performance.now() - startedMs) * 1000);
      run.tookMs.forEach((ms, index) => stages[index]!.push(ms * 1000));
    }
    totals.sort((a, b) => a - b);
    const by = stages.map((all) => median(all).toFixed(1)).join(' | ');
    const p99 = totals[Math.floor(totals.length * 0.99)]!.toFixed(1);
    process.stdout.write(
      `| ${post ? 'POST, 1 KB JSON' : 'GET'} | ${median(totals).toFixed(1)} | ${p99} | ${by} |\n`,
    );
  }
  await engines.close();
}

await main();
