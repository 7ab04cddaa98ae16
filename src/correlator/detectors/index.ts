/** All detectors, in one visible list. */
import type { PlaceOf } from '../../core/place.js';
import type { CorrelatorConfig } from '../config.js';
import type { DetectorSettings } from '../common.js';
import type { Detector } from '../detector.js';
import { createFailedLogins } from './failed-logins.js';
import { createNearLimit } from './near-limit.js';
import { createPrefixRotation } from './prefix-rotation.js';
import { createRareAgent } from './rare-agent.js';
import { createRoute } from '../route.js';
import { createRegularTiming } from './regular-timing.js';
import { createTokenRotation } from './token-rotation.js';
import { createTravel } from './travel.js';

export type Listed = Readonly<{ settings: DetectorSettings; detector: Detector }>;

/** `place` answers where an address is; where nobody knows, the networks of addresses must do. */
export type DetectorDeps = Readonly<{ place: PlaceOf }>;

const NOWHERE: DetectorDeps = { place: () => undefined };

/** Those that are not `off`. */
export function createDetectors(config: CorrelatorConfig['detectors'], deps = NOWHERE): readonly Listed[] {
  const { nearLimit, rareAgent, travel, tokenRotation, failedLogins, regularTiming } = config;
  const { prefixRotation } = config;
  const route = createRoute();
  const all: readonly Listed[] = [
    { settings: nearLimit, detector: createNearLimit(nearLimit) },
    { settings: rareAgent, detector: createRareAgent(rareAgent) },
    { settings: failedLogins, detector: createFailedLogins(failedLogins) },
    { settings: travel, detector: createTravel(travel, deps.place) },
    { settings: tokenRotation, detector: createTokenRotation(tokenRotation, route) },
    { settings: regularTiming, detector: createRegularTiming(regularTiming) },
    { settings: prefixRotation, detector: createPrefixRotation(prefixRotation) },
  ];
  return all.filter(({ settings }) => settings.mode !== 'off');
}
