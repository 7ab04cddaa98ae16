/** The `bans` section: how long bans last, how many there may be, where they are kept. */
import { z } from 'zod';
import { duration, span } from '../core/schema.js';

const points = (fallback: number) => z.number().min(0).max(100).default(fallback);

export const bansSection = z
  .strictObject({
    base: span('15m', { min: 1000 }).describe('How long the first ban of a subject by detectors lasts.'),
    factor: z
      .number()
      .min(1)
      .max(100)
      .default(4)
      .describe('Each further ban within `memory` lasts so many times longer.'),
    max: span('7d', { min: 1000 }).describe('Longest ban by detectors; operators may ask for longer ones.'),
    memory: span('30d', { min: 60_000 }).describe('How long earlier bans of a subject make the next longer.'),
    poll: duration('1s', { min: 50, max: 60_000 }).describe(
      'How often the list in Redis is looked at besides the messages about its changes.',
    ),
    most: z
      .int()
      .min(10)
      .max(500_000)
      .default(100_000)
      .describe('Bans in force; beyond it the least severe give way, the oldest of them first.'),
    ledger: z
      .int()
      .min(100)
      .max(1_000_000)
      .default(200_000)
      .describe('Subjects whose earlier bans are remembered; beyond it the longest untouched go.'),
    audit: z.int().min(100).max(1_000_000).default(10_000).describe('Entries of the audit trail kept.'),
    stateFile: z
      .string()
      .min(1)
      .optional()
      .describe('Where bans survive a restart, or Redis being away then; default: bans.jsonl in reputation.stateDir.'),
    feedback: z
      .strictObject({
        ban: points(40).describe('For a ban that is enforced.'),
        watch: points(20).describe('For a finding that is only watched.'),
      })
      .prefault({})
      .describe('Added once to the observed score of a newly banned address.'),
  })
  .prefault({});

export type BansConfig = z.output<typeof bansSection>;
