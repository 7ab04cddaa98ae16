/** The `admin` section: where operators and Prometheus ask, and when that is safe. */
import { z } from 'zod';
import { Fault } from '../core/errors.js';

export const adminSection = z
  .strictObject({
    enabled: z.boolean().default(true).describe('False: no admin listener.'),
    listen: z.string().default('127.0.0.1:9091').describe('Address and port; keep it on loopback.'),
    hosts: z
      .array(z.string().min(1).max(253))
      .max(32)
      .default([])
      .describe('Names it is called by, besides localhost and bare addresses; others are refused.'),
    tokenEnv: z
      .string()
      .default('TIDEGATE_ADMIN_TOKEN')
      .describe('Environment variable with the token that changes need.'),
    decisions: z
      .int()
      .min(10)
      .max(10_000)
      .default(200)
      .describe('How many refused or observed decisions are kept to look at.'),
  })
  .prefault({});

export type AdminConfig = z.output<typeof adminSection>;

/**
 * ADMIN_EXPOSED where others could reach a listener that has no token; `token` is what the environment holds.
 */
export function exposure(config: AdminConfig, token: string | undefined): Fault | undefined {
  const host = config.listen.replace(/:\d+$/, '');
  const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i.test(host);
  if (!config.enabled || loopback || (token !== undefined && token !== '')) return undefined;
  return new Fault('ADMIN_EXPOSED', { address: config.listen, env: config.tokenEnv });
}
