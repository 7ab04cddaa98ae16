/**
 * What workers that died had counted: kept in the sum for ever, so that no counter falls, in bounded room.
 */
import { joined, retired, type MetricSnapshot } from '../telemetry/metrics.js';

export type Retired = {
  add(snapshot: MetricSnapshot): void;
  snapshots(): readonly MetricSnapshot[];
  /** Resolves when nothing is being joined; for tests. */
  settled(): Promise<void>;
};

/** Joins what it has into one snapshot whenever more than `max` have come together. */
export function createRetired(max = 8): Retired {
  let kept: MetricSnapshot[] = [];
  let joining: Promise<void> = Promise.resolve();
  const join = async (): Promise<void> => {
    if (kept.length <= max) return;
    const parts = [...kept];
    const one = await joined(parts);
    kept = [one, ...kept.slice(parts.length)];
  };
  return {
    add(snapshot) {
      kept.push(retired(snapshot));
      joining = joining.then(join);
    },
    snapshots: () => kept,
    settled: () => joining,
  };
}

/** The value of a gauge without labels; 0 where it is not there. `name` with its prefix. */
export function gaugeIn(snapshot: MetricSnapshot, name: string): number {
  const values = snapshot.find((metric) => metric.name === name)?.values ?? [];
  return values.reduce((sum, each) => sum + each.value, 0);
}
