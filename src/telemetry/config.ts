/** The `log` and `metrics` sections. */
import { z } from 'zod';
import { bytes } from '../core/schema.js';

export const logSection = z
  .strictObject({
    file: z.string().optional().describe('Where events go; standard output where absent.'),
    level: z
      .enum(['info', 'warn', 'error'])
      .default('info')
      .describe('Least severe operational line that is written.'),
    passed: z.boolean().default(true).describe('Also write the events of requests that passed.'),
    queueEvents: z
      .int()
      .min(16)
      .max(1_000_000)
      .default(10_000)
      .describe('Lines that wait for a slow sink; more are dropped and counted.'),
    queueBytes: bytes('16MB', { min: 65_536 }).describe('Bytes that wait for a slow sink.'),
    fieldMax: z
      .int()
      .min(64)
      .max(65_536)
      .default(1024)
      .describe('Characters of a request field in an event; the rest is cut.'),
  })
  .prefault({});

export type LogConfig = z.output<typeof logSection>;

export const metricsSection = z
  .strictObject({
    prefix: z
      .string()
      .regex(/^[a-z_]*$/)
      .default('tidegate_')
      .describe('What every metric name begins with.'),
  })
  .prefault({});

export type MetricsConfig = z.output<typeof metricsSection>;
