/** Engines for one-shot commands: built from a config as a worker builds them, with counters of their own. */
import type { Config } from '../config/schema.js';
import type { Clock } from '../core/clock.js';
import { randomHashKey } from '../identity/index.js';
import { memoryStore } from '../limits/stores/memory.js';
import { buildEngines, type Engines } from '../roles/engines.js';

/**
 * Throws a Fault where the gate would not start either. What would only be logged goes to `warn`.
 * The caller closes the engines.
 */
export async function openEngines(
  config: Config,
  clock: Clock,
  warn: (message: string) => void = (message) => void process.stderr.write(`warning: ${message}\n`),
): Promise<Engines> {
  const store = memoryStore({ clock });
  const engines = await buildEngines(config, {
    store,
    channel: undefined,
    clock,
    hashKey: randomHashKey(),
    log: (level, message) => {
      if (level !== 'info') warn(message);
    },
  });
  return {
    ...engines,
    async close() {
      await engines.close();
      await store.close();
    },
  };
}
