/** The `correlator` section: windows, the blast guard, and one section for each detector. */
import { z } from 'zod';
import { duration } from '../core/schema.js';

export const correlatorSection = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe('Without Kafka: look for patterns in the supervisor. `tidegate correlate` always does.'),
    evaluateEvery: duration('2s', { min: 100, max: 60_000 }).describe(
      'How often detectors are asked, by the wall clock and by event time.',
    ),
    lateness: duration('30s', { min: 0, max: 600_000 }).describe(
      'Events that come later than this after younger ones of their partition are counted, not judged.',
    ),
    detectors: z.strictObject({}).prefault({}).describe('One section for each detector.'),
  })
  .prefault({});

export type CorrelatorConfig = z.output<typeof correlatorSection>;
