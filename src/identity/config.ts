/** The `identity` section: where the dimensions are read from. */
import { z } from 'zod';

const name = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, 'a token of letters, digits and - _ . fits');

const sessionSection = z.strictObject({
  cookie: name.default('sid').describe('Name of the session cookie, spelled as the site sets it.'),
});

const apiKeySection = z.strictObject({
  header: name.default('x-api-key').describe('Header that carries the API key.'),
});

const field = z.string().min(1).max(128);

const userSection = z.strictObject({
  header: name.optional().describe('Header that names the user; only where a trusted proxy sets it.'),
  jwtClaim: field
    .optional()
    .describe('Claim of the bearer token that names the user, such as sub; the signature is not verified.'),
  jsonField: z
    .union([field, z.array(field).min(1).max(8)])
    .optional()
    .describe(
      'Body field (JSON leaf or form field) that names the user; of a list the first one present counts.',
    ),
});

export const identitySection = z
  .strictObject({
    session: sessionSection.prefault({}).describe('How a session is recognised.'),
    apiKey: apiKeySection.prefault({}).describe('How an API client is recognised.'),
    user: userSection
      .prefault({ jsonField: ['username', 'email', 'user', 'login'] })
      .describe('How a user is recognised: header, else JWT claim, else body field.'),
    hashKeyEnv: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable fits')
      .default('TIDEGATE_HASH_KEY')
      .describe(
        'Environment variable with the key for identity hashes; unset means a random key for each run.',
      ),
  })
  .prefault({});

export type IdentityConfig = z.output<typeof identitySection>;
