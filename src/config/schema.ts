/**
 * The whole config file: joins the sections of the parts. Types, defaults and the reference page come from
 * here.
 */
import { z } from 'zod';
import { adminSection } from '../admin/config.js';
import { kafkaSection } from '../bus/config.js';
import { bansSection } from '../controls/config.js';
import { correlatorSection } from '../correlator/config.js';
import { decisionSection } from '../decision/config.js';
import { headersSection } from '../headers/config.js';
import { identitySection } from '../identity/config.js';
import { limitsSection } from '../limits/config.js';
import { pipelineSection } from '../pipeline/config.js';
import { proxyShape } from '../proxy/config.js';
import { redisSection } from '../redis/config.js';
import { reputationSection } from '../reputation/config.js';
import { rulesSection } from '../rules/config.js';
import { logSection, metricsSection } from '../telemetry/config.js';
import { xdpSection } from '../xdp/config.js';

export const configSchema = z.strictObject({
  ...proxyShape,
  identity: identitySection,
  reputation: reputationSection,
  bans: bansSection,
  limits: limitsSection,
  headers: headersSection,
  rules: rulesSection,
  decision: decisionSection,
  pipeline: pipelineSection,
  log: logSection,
  metrics: metricsSection,
  admin: adminSection,
  redis: redisSection,
  kafka: kafkaSection,
  correlator: correlatorSection,
  xdp: xdpSection,
});

/**
 * The file as read, every default filled in; `baseDir` is the absolute folder that relative paths start from.
 */
export type Config = Readonly<z.output<typeof configSchema> & { baseDir: string }>;
