/** The `reputation` section: lists, feeds, the ASN database, points and the observed score. */
import { z } from 'zod';
import { cidr, duration, span } from '../core/schema.js';

const points = (fallback: number) => z.number().min(0).max(100).default(fallback);

/** Large hosting and cloud networks whose clients are rarely people. */
const HOSTING_ASNS = [
  8560, 12876, 14061, 14618, 16276, 16509, 20473, 24940, 31898, 36352, 37963, 45102, 51167, 60781, 63949,
  132203, 396982,
];
const HOSTING_WORDS = ['hosting', 'datacenter', 'data center', 'dedicated server', 'colocation'];

const torSection = z
  .strictObject({
    file: z.string().min(1).optional().describe('Onionoo details document on disk; watched for changes.'),
    url: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe('Address of an Onionoo details document.'),
    refresh: duration('15m', { min: 1000 }).describe('How often the URL is fetched.'),
    timeout: duration('30s', { min: 100 }).describe('Deadline of one fetch, body included.'),
  })
  .refine((tor) => (tor.file === undefined) !== (tor.url === undefined), {
    error: 'exactly one of `file` and `url` fits',
  });

const asnSection = z.strictObject({
  database: z
    .string()
    .min(1)
    .describe('MaxMind-format database with autonomous_system_number and _organization.'),
  hosting: z
    .strictObject({
      asns: z
        .array(z.int().min(0).max(4_294_967_295))
        .default(HOSTING_ASNS)
        .describe('Numbers of hosting networks.'),
      words: z
        .array(z.string().min(2))
        .default(HOSTING_WORDS)
        .describe('Words in an organisation name that mean hosting.'),
    })
    .prefault({})
    .describe('Which networks count as hosting.'),
});

const geoSection = z.strictObject({
  database: z
    .string()
    .min(1)
    .describe('MaxMind-format city or country database (location, or country.iso_code or country_code).'),
});

const observedSection = z.strictObject({
  halfLife: span('24h', { min: 1000 }).describe('Time after which an observed score has halved.'),
  evictBelow: z
    .number()
    .min(0.1)
    .max(100)
    .default(5)
    .describe('Scores below this are neither counted nor kept.'),
  sweep: duration('1h', { min: 1000 }).describe('How often faded scores are evicted.'),
  max: z
    .int()
    .min(100)
    .max(500_000)
    .default(100_000)
    .describe('Sources remembered; beyond it the lowest go.'),
  stateFile: z
    .string()
    .min(1)
    .optional()
    .describe('Where scores survive a restart; default: observed.jsonl in stateDir.'),
});

export const reputationSection = z
  .strictObject({
    allowlist: z
      .string()
      .min(1)
      .optional()
      .describe('File of addresses and networks that are never refused for reputation.'),
    blocklist: z
      .string()
      .min(1)
      .optional()
      .describe('File of addresses and networks that are refused at once.'),
    tor: torSection.optional().describe('Where the Tor exits come from.'),
    asn: asnSection.optional().describe('Where the owner of an address is looked up.'),
    geo: geoSection
      .optional()
      .describe('Where the place of an address is looked up, for the correlator.'),
    points: z
      .strictObject({
        blocked: points(100).describe('Blocklisted address.'),
        tor: points(70).describe('Tor exit.'),
        hosting: points(55).describe('Address of a hosting network.'),
        refusal: points(20).describe('Added to the observed score by each refusal for cause.'),
      })
      .prefault({})
      .describe('What each finding adds to the score.'),
    observed: observedSection.prefault({}).describe('The score a source earns by its own refusals.'),
    widest: z
      .strictObject({
        ipv4: z.int().min(0).max(32).default(8).describe('Shortest IPv4 prefix a blocklist line may have.'),
        ipv6: z.int().min(0).max(128).default(17).describe('Shortest IPv6 prefix a blocklist line may have.'),
      })
      .prefault({})
      .describe('Blocklist lines wider than this are skipped with a warning.'),
    ipv6Prefix: z
      .int()
      .min(32)
      .max(128)
      .default(64)
      .describe('A single IPv6 address on the blocklist covers this prefix.'),
    ownAddresses: z
      .array(cidr())
      .default([])
      .describe('Never blocked, besides the addresses of this machine.'),
    stateDir: z
      .string()
      .min(1)
      .optional()
      .describe('Folder for the last good copy of each feed; default: none is kept.'),
    poll: duration('1s', { min: 50 }).describe(
      'How often watched files are looked at besides change notices.',
    ),
  })
  .prefault({});

export type ReputationConfig = z.output<typeof reputationSection>;
