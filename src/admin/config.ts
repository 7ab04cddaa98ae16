/** The `admin` section: where operators and Prometheus ask. */
import { z } from 'zod';

export const adminSection = z
  .strictObject({
    enabled: z.boolean().default(true).describe('False: no admin listener.'),
    listen: z.string().default('127.0.0.1:9091').describe('Address and port; keep it on loopback.'),
    tokenEnv: z.string().default('TIDEGATE_ADMIN_TOKEN').describe('Environment variable with the token that changes need.'),
    decisions: z.int().min(10).max(10_000).default(200).describe('How many refused or observed decisions are kept to look at.'),
  })
  .prefault({});

export type AdminConfig = z.output<typeof adminSection>;
