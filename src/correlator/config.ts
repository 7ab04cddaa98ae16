/** The `correlator` section: windows, the blast guard, and one section for each detector. */
import { z } from 'zod';
import { duration, span } from '../core/schema.js';
import { crawlersSection } from './crawler-list.js';
import { failedLoginsSection } from './detectors/login-config.js';
import { nearLimitSection } from './detectors/near-limit.js';
import { prefixRotationSection } from './detectors/prefix-rotation.js';
import { rareAgentSection } from './detectors/rare-agent.js';
import { regularTimingSection } from './detectors/regular-timing.js';
import { tokenRotationSection } from './detectors/token-rotation.js';
import { travelSection } from './detectors/travel.js';

const blastSection = z
  .strictObject({
    share: z
      .number()
      .min(0)
      .max(1)
      .default(0.02)
      .describe(
        'Of the good requests of the last 15 minutes, bans may touch this part; beyond, they are only reported.',
      ),
    maxSuspects: z
      .int()
      .min(1)
      .max(100_000)
      .default(10_000)
      .describe('Bans a minute; the others wait for the next one.'),
  })
  .prefault({});

const detectorsSection = z
  .strictObject({
    nearLimit: nearLimitSection.describe('Addresses that cluster just under a limit.'),
    rareAgent: rareAgentSection.describe('The same rare user agent over thousands of addresses.'),
    failedLogins: failedLoginsSection.describe('Failed logins over one endpoint from many addresses.'),
    travel: travelSection.describe('A session that travels faster than physics.'),
    tokenRotation: tokenRotationSection.describe('Many short-lived tokens that walk by one plan.'),
    regularTiming: regularTimingSection.describe('Steps that are too even for a person.'),
    prefixRotation: prefixRotationSection.describe('Rotation inside one IPv6 prefix.'),
  })
  .prefault({});

export const correlatorSection = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe('Without Kafka: look for patterns in the supervisor. `tidegate correlate` always does.'),
    evaluateEvery: duration('2s', { min: 100, max: 60_000 }).describe(
      'How often detectors are asked, by the wall clock and by event time.',
    ),
    lateness: duration('10m', { min: 0, max: 3_600_000 }).describe(
      'Events that come later than this after younger ones of their partition are counted, not judged.',
    ),
    stale: span('24h', { min: 60_000 }).describe(
      'What was seen last so long ago is reported, not acted on: a topic that is read anew.',
    ),
    queueMax: z
      .int()
      .min(100)
      .max(1_000_000)
      .default(50_000)
      .describe('Without Kafka: events that wait for the correlator; beyond, they are dropped and counted.'),
    listen: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Where `tidegate correlate` answers `/metrics` and `/healthz`, such as 127.0.0.1:9092; absent: nowhere.',
      ),
    blast: blastSection.describe('The guard against bans that would hit many who did nothing.'),
    crawlers: crawlersSection.describe(
      'Who is not banned once an address proves to be theirs, besides the large search engines: your probes.',
    ),
    detectors: detectorsSection.describe('One section for each detector.'),
  })
  .prefault({});

export type CorrelatorConfig = z.output<typeof correlatorSection>;
