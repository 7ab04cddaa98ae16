/** Thresholds of `failedLogins`, and how it knows a login that failed. */
import { z } from 'zod';
import { span } from '../../core/schema.js';
import { detectorShape } from '../common.js';

const word = z.string().min(1).max(64);
const endpoint = z.strictObject({
  path: z.string().startsWith('/').max(256).describe('In full; case and path parameters do not matter.'),
  methods: z.array(z.string().min(1).max(16)).min(1).default(['POST']),
  failed: z
    .array(z.number().int().min(200).max(499))
    .min(1)
    .default([400, 401, 403, 422, 423, 429])
    .describe('Answers that mean it failed, such as 302 where a success is answered with 303.'),
});

export const failedLoginsSection = z
  .strictObject({
    ...detectorShape(0.8),
    window: span('1h', { min: 60_000, max: 86_400_000 }).describe(
      'How far back attempts are counted; a faster look takes the last sixth of it.',
    ),
    addresses: z
      .number()
      .int()
      .min(2)
      .max(100_000)
      .default(20)
      .describe('From so many addresses that only fail on one endpoint it is an attack.'),
    failures: z
      .number()
      .int()
      .min(1)
      .max(1000)
      .default(4)
      .describe('Failed logins from which an address counts as one that only fails.'),
    goodShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe(
        'Spared, where attempts name no user: an address with more good logins than this part of its failed ' +
          'ones.',
      ),
    peopleShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.02)
      .describe(
        'For each address that got in, how many people give up after `failures` attempts; it is an attack ' +
          'from three times as many on. Halved with each further attempt.',
      ),
    statuses: z
      .array(z.number().int().min(400).max(499))
      .default([400, 401, 403, 422, 423, 429])
      .describe("Answers of the origin to a login that failed (OAuth's is 400, many frameworks' 422)."),
    words: z
      .array(word)
      .default([
        'login',
        'log-in',
        'log_in',
        'logon',
        'signin',
        'sign-in',
        'sign_in',
        'authenticate',
        'j_security_check',
        'j_spring_security_check',
      ])
      .describe(
        'A POST or PUT to a path whose last part begins or ends with one of these is a login; so is one of ' +
          'the steps below it, such as `/login/submit`.',
      ),
    tokenWords: z
      .array(word)
      .default(['session', 'sessions', 'auth', 'token'])
      .describe('A path that ends in one of these may be a login: attempts that name a user count.'),
    endpoints: z
      .array(endpoint)
      .max(100)
      .default([])
      .describe('Logins that are told by other paths, methods or answers.'),
    formWords: z
      .array(word)
      .default(['wp-login'])
      .describe('Logins whose answer 200 is the form again: the login failed.'),
    entriesMax: z
      .number()
      .int()
      .min(100)
      .max(1_000_000)
      .default(20_000)
      .describe(
        'Addresses remembered for each partition, and as many for who got in; beyond, those that did least ' +
          'give way.',
      ),
  })
  .prefault({});

export type FailedLoginsConfig = z.output<typeof failedLoginsSection>;
