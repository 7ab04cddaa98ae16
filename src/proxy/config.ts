/**
 * Keys at the top of the config file: where the gate listens, for whom, and how long and how much it waits
 * for.
 */
import { z } from 'zod';
import { bytes, cidr, duration } from '../core/schema.js';
import { isHostPattern } from './host.js';
import { isDnsServer } from './resolver.js';

const listener = z.strictObject({
  address: z.string().describe('Address and port, `127.0.0.1:8080` or `[::]:8080`; port 0 takes a free one.'),
  tls: z
    .strictObject({
      cert: z.string().describe('Certificate chain, PEM file.'),
      key: z.string().describe('Private key, PEM file.'),
    })
    .optional()
    .describe('Serve HTTPS here. Both files are read again on reload.'),
  proxyProtocol: z
    .boolean()
    .default(false)
    .describe(
      'Every connection must open with a PROXY protocol v1 or v2 header, and come from a trusted proxy.',
    ),
});

const site = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/i)
    .describe('Name in logs, metrics and exclusions.'),
  hosts: z
    .array(
      z.string().refine(isHostPattern, {
        error: (issue) =>
          `found ${JSON.stringify(issue.input)}; a host without port such as a.example, *.a.example or * fits`,
      }),
    )
    .min(1)
    .describe('Host names; `*.example.com` takes every subdomain, `*` every host.'),
  upstreams: z
    .array(z.url({ protocol: /^https?$/ }))
    .min(1)
    .describe('Origins: http or https URL without a path.'),
  mode: z.enum(['enforce', 'observe']).optional().describe('Overrides `mode` for this site.'),
  passHost: z
    .boolean()
    .default(true)
    .describe("Send the client's Host to the origin; false sends the origin's own name."),
});

export const proxyShape = {
  listen: z
    .union([z.string(), z.array(z.union([z.string(), listener])).min(1)])
    .default('127.0.0.1:8080')
    .transform((value) =>
      (Array.isArray(value) ? value : [value]).map((entry) =>
        typeof entry === 'string'
          ? { address: entry, proxyProtocol: false, tls: undefined }
          : { ...entry, tls: entry.tls },
      ),
    )
    .describe('Where the gate listens: one address, or a list of { address, tls, proxyProtocol }.'),
  workerHeap: z
    .enum(['fast', 'lean'])
    .default('fast')
    .describe(
      'lean: a worker collects garbage sooner and stays about 50 MB smaller, but serves a tenth to a third less.',
    ),
  workers: z
    .union([z.literal('auto'), z.int().min(1).max(256)])
    .default('auto')
    .describe('Worker processes; auto takes one a core.'),
  trustedProxies: z
    .array(cidr())
    .default([])
    .describe('Networks whose X-Forwarded-For and PROXY headers count.'),
  mode: z
    .enum(['enforce', 'observe'])
    .default('enforce')
    .describe('observe: judge and log everything, refuse nothing.'),
  unknownHost: z
    .enum(['serve', 'refuse'])
    .default('refuse')
    .describe(
      'A host no site takes: refuse answers 421 after the pipeline; serve hands it to the first site.',
    ),
  ipv6Prefix: z
    .int()
    .min(32)
    .max(128)
    .default(64)
    .describe('IPv6 clients are limited and banned by this prefix.'),
  sites: z.array(site).min(1).describe('The web sites behind the gate.'),
  timeouts: z
    .strictObject({
      headers: duration('10s', { min: 100 }).describe("For a request's head to arrive whole."),
      body: duration('30s', { min: 100 }).describe('Longest silence while a request body arrives.'),
      request: duration('30m', { min: 1000 }).describe('For a whole request to arrive.'),
      keepAlive: duration('65s', { min: 0 }).describe('An idle client connection is closed after this.'),
      clientWrite: duration('30s', { min: 100 }).describe(
        'A client that takes next to nothing of its answer for this long is cut off.',
      ),
      halfClosed: duration('3s', { min: 10 }).describe(
        'A client that has closed its side may wait for its answer, or the next part of it, for this long.',
      ),
      queue: duration('5s', { min: 10 }).describe(
        "Longest wait for one of an origin's connections; then 503 with Retry-After.",
      ),
      bodyHeld: duration('5m', { min: 100 }).describe('For a body that is held to arrive whole.'),
      connect: duration('5s', { min: 10 }).describe('To connect to an origin.'),
      response: duration('60s', { min: 10 }).describe("For an origin's answer to begin."),
      responseBody: duration('5m', { min: 10 }).describe("Longest silence inside an origin's answer."),
      upgrade: duration('10s', { min: 10 }).describe('For an origin to answer a WebSocket handshake.'),
      worker: duration('10s', { min: 0 }).describe(
        'A worker without a sign of life for this long is killed and replaced; 0: never.',
      ),
      drain: duration('30s', { min: 0 }).describe('After SIGTERM, for requests in flight to end.'),
    })
    .prefault({})
    .describe('Deadlines by phase.'),
  caps: z
    .strictObject({
      connections: z.int().min(1).default(20_000).describe('Client connections a worker holds.'),
      headers: z.int().min(8).max(2000).default(100).describe('Header fields in a request.'),
      headerBytes: bytes('32KB', { min: 1024, max: 1024 ** 2 }).describe("Bytes of a request's head."),
      upstreamConnections: z
        .int()
        .min(1)
        .default(1024)
        .describe(
          'Connections a worker opens to one origin address: so many requests, long polls, event streams and ' +
            'downloads at once.',
        ),
      perAddress: z
        .int()
        .min(1)
        .default(512)
        .describe(
          'Requests of one client address (IPv6: one network) under way at once in a worker; above it 429. ' +
            'Allowlisted addresses are free of it.',
        ),
      tunnelsPerAddress: z
        .int()
        .min(1)
        .default(512)
        .describe(
          'WebSocket tunnels and handshakes of one client address at once in a worker, apart from its ' +
            'requests; above it 429. Allowlisted addresses are free of it.',
        ),
      addressShare: z
        .int()
        .min(1)
        .max(50)
        .default(25)
        .describe(
          "Percent of an origin's connections that stay free when one client address takes all it may. The " +
            'more holders there are, the smaller the part of each: with 25, at most three times what is free.',
        ),
      delayed: z
        .int()
        .min(0)
        .default(1024)
        .describe('Requests a worker makes wait at once (delayMax, throttle); further ones get 429.'),
      upstreamQueue: z.int().min(1).default(1024).describe('Requests that may wait for one of them.'),
    })
    .prefault({})
    .describe('What a worker accepts at most.'),
  body: z
    .strictObject({
      judgedWhole: bytes('256KB', { min: 1024 }).describe(
        'Streamed bodies up to this size are judged before a byte goes out.',
      ),
      structured: bytes('10MB', { min: 1024 }).describe(
        'JSON, form, XML and text bodies above this are refused with 413.',
      ),
      heldTotal: bytes('128MB', { min: 65_536 }).describe(
        'Body bytes a worker holds for all requests together, a quarter of it kept for bodies up to 64 KB. ' +
          'When it is full, whoever holds most is cut off with 503. Memory used is about twice this.',
      ),
      heldPerAddress: bytes('24MB', { min: 1024 }).describe(
        'Bytes of bodies above 64 KB that a worker holds for one client address (IPv6: one network); above it ' +
          'its largest and slowest body is cut off with 503.',
      ),
      minRate: bytes('1KB', { min: 0, max: 1024 ** 2 }).describe(
        'Bytes a second that a held body must bring, over each `timeouts.body`; below it 408. 0: any.',
      ),
      decodedRatio: z
        .int()
        .min(2)
        .max(10_000)
        .default(100)
        .describe('A compressed body may grow by this factor at most.'),
    })
    .prefault({})
    .describe('How request bodies are read.'),
  dns: z
    .strictObject({
      refresh: duration('5s', { min: 100 }).describe('Names of origins are looked up again this often.'),
      servers: z
        .array(
          z.string().refine(isDnsServer, {
            error: (issue) =>
              `found ${JSON.stringify(issue.input)}; an address such as 10.0.0.2 or 127.0.0.1:5353 fits`,
          }),
        )
        .max(8)
        .default([])
        .describe('DNS servers to ask; with none, the machine resolves, its hosts file included.'),
    })
    .prefault({})
    .describe('Origin name resolution.'),
  health: z
    .strictObject({
      failures: z.int().min(1).default(3).describe('Failures in a row that set an origin address aside.'),
      backoff: duration('1s', { min: 10 }).describe(
        'For how long at first; doubles with each further failure, up to a minute.',
      ),
    })
    .prefault({})
    .describe('Passive health of origin addresses.'),
};

export type ProxyConfig = z.output<z.ZodObject<typeof proxyShape>>;
export type SiteConfig = ProxyConfig['sites'][number];
