/**
 * Where first crossings go: always a line in the agent's log, and the topic of decisions where the config
 * names Kafka. They are hints for people and dashboards; nothing is banned for them, since a source of
 * packets can be forged.
 */
import type { KernelEvent } from '../core/kernel-event.js';
import type { AgentLog } from '../xdp/agent.js';

export type KernelOutlet = Readonly<{
  /** Never throws, never waits. */
  tell(event: KernelEvent): void;
  close(): Promise<void>;
}>;

export function createKernelOutlet(log: AgentLog): KernelOutlet {
  return {
    tell: (event) => log('warn', 'a source is over a cap', { event }),
    close: async () => undefined,
  };
}
