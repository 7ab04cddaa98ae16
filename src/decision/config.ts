/** The `decision` section: when findings become a refusal. */
import { z } from 'zod';
import { duration } from '../core/schema.js';

const tier = z.strictObject({
  atScore: z.number().min(0).max(100).describe('From this score on.'),
  rung: z.enum(['throttle', 'refuse']).describe('throttle delays, refuse answers 403.'),
  delay: duration('1s', { min: 0, max: 30_000 }).describe('How long a throttled request waits.'),
});

export const decisionSection = z
  .strictObject({
    blockScore: z.number().min(1).max(100).default(80).describe('From this score on any rule match refuses.'),
    blockSeverity: z.int().min(1).max(4).default(4).describe('A match of this severity refuses by itself.'),
    ladder: z.array(tier).max(20).default([]).describe('What a score alone brings, highest tier first.'),
  })
  .prefault({});

export type DecisionConfig = z.output<typeof decisionSection>;
