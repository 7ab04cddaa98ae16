/** The client's address: IPv4 as it is, IPv6 as its prefix (/64 unless configured). */
import type { Dimension } from '../dimension.js';

export const ip: Dimension = { name: 'ip', inBody: false, read: (facts) => facts.client.key };
