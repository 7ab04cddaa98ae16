/** The five algorithms. The order is part of the wire format between worker and supervisor: append only. */
import type { Algorithm } from '../algorithm.js';
import type { AlgorithmName } from '../limiter-contract.js';
import { fixedWindow } from './fixed-window.js';
import { leakyBucket } from './leaky-bucket.js';
import { slidingCounter } from './sliding-counter.js';
import { slidingLog } from './sliding-log.js';
import { tokenBucket } from './token-bucket.js';

export const algorithms: readonly Algorithm[] = [
  fixedWindow,
  slidingLog,
  slidingCounter,
  leakyBucket,
  tokenBucket,
];

const byName = new Map<AlgorithmName, Algorithm>(algorithms.map((algorithm) => [algorithm.name, algorithm]));

export function algorithmNamed(name: AlgorithmName): Algorithm {
  return byName.get(name) ?? slidingCounter;
}
