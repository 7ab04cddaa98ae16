/**
 * The `kafka` section: where decision events go, what waits for a slow broker, and who reads them. No message
 * shows a value of it that may hold a password.
 */
import { z } from 'zod';
import { bytes, duration } from '../core/schema.js';

const ADDRESS = /^(?:\[[0-9a-f:.]+\]|[^\s:/@[\]]+):\d{1,5}$/i;

const address = z.string().superRefine((text, context) => {
  if (ADDRESS.test(text) && Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535) return;
  const message = text.includes('@')
    ? 'a host and port without a name or password fits, such as kafka-1:9092; passwords go to sasl.passwordEnv'
    : `found ${JSON.stringify(text)}; a host and port such as kafka-1:9092 or [::1]:9092 fits`;
  context.addIssue({ code: 'custom', message });
});

const name = (fallback: string) =>
  z
    .string()
    .max(249)
    .regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]*$/, { error: 'letters, digits, dots, dashes and underscores fit' })
    .default(fallback);

const whole = (fallback: number, min: number, max: number) => z.int().min(min).max(max).default(fallback);

const saslSection = z.strictObject({
  mechanism: z.enum(['plain', 'scram-sha-256', 'scram-sha-512']).describe('How to sign in.'),
  username: z.string().min(1).max(255).describe('Whom to sign in as.'),
  passwordEnv: z.string().min(1).describe('Environment variable with the password.'),
});

const tlsSection = z
  .strictObject({
    ca: z.string().optional().describe('Certificates to trust, PEM file; those of the system where absent.'),
    cert: z.string().optional().describe('Own certificate, PEM file, where the brokers ask for one.'),
    key: z.string().optional().describe('Its private key, PEM file.'),
  })
  .refine(({ cert, key }) => (cert === undefined) === (key === undefined), {
    error: 'cert and key fit together only',
  });

const queueShape = {
  queueEvents: whole(20_000, 16, 1_000_000).describe(
    'Events of one worker that wait for the broker; beyond it passed ones go first, then limited, then refused.',
  ),
  queueBytes: bytes('32MB', { min: 65_536 }).describe('Bytes that wait likewise.'),
  eventMax: bytes('256KB', { min: 4096, max: 16 * 1024 ** 2 }).describe(
    'Longest event; a longer one loses its findings and long texts, and is dropped where that is not enough.',
  ),
  batchEvents: whole(500, 1, 10_000).describe('Most events in one request to the broker.'),
  linger: duration('20ms', { max: 5_000 }).describe('How long the first event of a batch waits for others.'),
  closing: duration('3s', { max: 60_000 }).describe(
    'At the end, how long what waits is still delivered; the rest is lost and counted in the log.',
  ),
};

export const kafkaSection = z
  .strictObject({
    brokers: z.array(address).min(1).max(64).describe('Some of the brokers, `host:9092`; the rest is found.'),
    topic: name('tidegate.decisions').describe('Where decision events go.'),
    clientId: name('tidegate').describe('How the gate names itself to the brokers.'),
    group: name('tidegate-correlator').describe('Consumer group of `tidegate correlate`.'),
    createTopic: z.boolean().default(true).describe('Create the topic where it is missing.'),
    partitions: whole(12, 1, 1_000).describe('Partitions of a topic that is created.'),
    replicas: z.int().min(1).max(9).optional().describe("Copies of each partition; the brokers' own default."),
    compression: z.enum(['gzip', 'none']).default('gzip').describe('How batches are packed.'),
    ...queueShape,
    connectTimeout: duration('2s', { min: 50, max: 60_000 }).describe('Longest wait for a connection.'),
    requestTimeout: duration('5s', { min: 100, max: 120_000 }).describe("Longest wait for a broker's answer."),
    sasl: saslSection.optional().describe('Sign in to the brokers.'),
    tls: z
      .union([z.boolean(), tlsSection])
      .default(false)
      .describe('TLS to the brokers: true trusts what the system trusts, or { ca, cert, key }.'),
  })
  .optional()
  .describe('Decision events to Kafka, read by `tidegate correlate`; absent: embedded.');

export type KafkaConfig = NonNullable<z.output<typeof kafkaSection>>;
