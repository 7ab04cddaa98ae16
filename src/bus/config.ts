/** Where decision events go. Not yet used: 0.1 keeps them in the process and refuses this key. */
import { z } from 'zod';

export const kafkaSection = z
  .strictObject({
    brokers: z.array(z.string().min(1)).min(1).describe('Addresses to begin with, `host:9092`.'),
  })
  .optional()
  .describe('Decision events to Kafka; absent: embedded. Not supported yet in 0.1.');

export type KafkaConfig = z.output<typeof kafkaSection>;
