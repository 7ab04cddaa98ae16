/** The `rules` section: where rules come from, what a match weighs, and every bound of the engine. */
import { z } from 'zod';
import { bytes } from '../core/schema.js';

const whole = (fallback: number, min: number, max: number) =>
  z.number().int().min(min).max(max).default(fallback);
const weight = (fallback: number) => whole(fallback, 0, 100);

const exclusion = z.strictObject({
  rule: z.string().min(1).describe('Rule id; a trailing `*` takes every id that starts so.'),
  site: z.string().optional().describe('Only on this site.'),
  path: z
    .string()
    .optional()
    .describe('Only where the clean path equals this; a trailing `*` takes all that start so.'),
  target: z.string().optional().describe('Only at this target, such as `query:q` or `json:*`.'),
});

export const rulesSection = z
  .strictObject({
    native: z
      .string()
      .optional()
      .describe('Folder of the native rules; those of the package where it is not given.'),
    custom: z.array(z.string()).max(100).default([]).describe('Further folders of rules in the same format.'),
    paranoiaLevel: whole(1, 1, 4).describe('Rules above this level are not loaded.'),
    exclusions: z.array(exclusion).max(10_000).default([]).describe('Where a rule does not apply.'),
    severityPoints: z
      .strictObject({ 1: weight(5), 2: weight(15), 3: weight(40), 4: weight(80) })
      .prefault({})
      .describe('Points that a match adds, by severity.'),
    decodeDepth: whole(5, 1, 10).describe('How many layers of encoding are taken off; a value with more is a match of severity 4.'),
    variantsMax: whole(64, 4, 256).describe('How many forms of one value are judged; a value with more is a match of severity 4.'),
    windowBytes: bytes('32KB', { min: 4096, max: 1024 ** 2 }).describe(
      'Long values are judged in windows of this size.',
    ),
    overlapBytes: bytes('2KB', { min: 64, max: 65_536 }).describe(
      'How much of a window is judged again with the next.',
    ),
    wholeBytesMax: bytes('10MB', { min: 1024 }).describe(
      'Largest structured body; above it the answer is 413.',
    ),
    fieldBytesMax: bytes('1MB', { min: 1024 }).describe(
      'Largest field of a multipart body; above it the answer is 413.',
    ),
    workMax: bytes('16MB', { min: 1024 ** 2 }).describe(
      'Characters judged for one request, all forms of all values together; above it the answer is 413.',
    ),
    workPerByte: whole(32, 1, 1000).describe('How many more for each byte of its body.'),
    maxFields: whole(500_000, 1, 10_000_000).describe(
      'Most fields or JSON leaves of a body; above it the answer is 413.',
    ),
    jsonDepth: whole(100, 1, 10_000).describe('Deepest nesting of JSON; above it the answer is 400.'),
    multipartParts: whole(1000, 1, 100_000).describe(
      'Most parts of a multipart body; above it the answer is 413.',
    ),
  })
  .prefault({});

export type RulesConfig = z.output<typeof rulesSection>;
