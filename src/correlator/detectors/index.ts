/** All detectors, in one visible list. */
import type { CorrelatorConfig } from '../config.js';
import type { DetectorSettings } from '../common.js';
import type { Detector } from '../detector.js';
import { createFailedLogins } from './failed-logins.js';

export type Listed = Readonly<{ settings: DetectorSettings; detector: Detector }>;

/** Those that are not `off`. */
export function createDetectors(config: CorrelatorConfig['detectors']): readonly Listed[] {
  const all: readonly Listed[] = [
    { settings: config.failedLogins, detector: createFailedLogins(config.failedLogins) },
  ];
  return all.filter(({ settings }) => settings.mode !== 'off');
}
