/** The IPv6 /56, so that a host cannot walk through the /64s of its own site; the same as `ip` for IPv4. */
import type { Dimension } from '../dimension.js';

export const wideIp: Dimension = { name: 'wideIp', inBody: false, read: (facts) => facts.client.wideKey };
