/** Every admin resource. Whatever is no GET changes state and needs the token. */
import type { AdminRoute } from '../route.js';
import { banAudit, banLift, banMake, bans } from './bans.js';
import { controls, mode, reload } from './controls.js';
import { decision, decisions } from './decisions.js';
import { healthz, readyz } from './health.js';
import { limits, limitsReset } from './limits.js';
import { metrics } from './metrics.js';

export const ADMIN_ROUTES: readonly AdminRoute[] = [
  healthz,
  readyz,
  metrics,
  decisions,
  decision,
  controls,
  reload,
  mode,
  limits,
  limitsReset,
  bans,
  banAudit,
  banMake,
  banLift,
];
