/** What happens to a request when a stage breaks or takes too long. */
import { z } from 'zod';
import { duration } from '../core/schema.js';

const onFailure = (fallback: 'pass' | 'refuse', what: string) =>
  z
    .enum(['pass', 'refuse'])
    .default(fallback)
    .describe(`When ${what} breaks: pass the stage by, or refuse with 503.`);

export const pipelineSection = z
  .strictObject({
    onFailure: z
      .strictObject({
        reputation: onFailure('pass', 'the reputation stage'),
        limits: onFailure('pass', 'the limits stage'),
        headers: onFailure('pass', 'header scoring'),
        rules: onFailure('refuse', 'the rules stage'),
      })
      .prefault({})
      .describe('What to do with a request whose stage broke.'),
    deadline: duration('1500ms', { min: 1 }).describe(
      'For a stage that waits on a store; then `onFailure` holds.',
    ),
  })
  .prefault({});

export type PipelineConfig = z.output<typeof pipelineSection>;
