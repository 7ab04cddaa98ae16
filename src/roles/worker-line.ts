/** What a worker tells its supervisor, written into the roster; what needs an answer goes to the hooks. */
import {
  TOPICS,
  type Failed,
  type LimitStoreHealth,
  type Notables,
  type Ready,
  type Swapped,
} from '../cluster/messages.js';
import type { WorkerState } from '../cluster/roster.js';
import { steadyClock } from '../core/clock.js';
import type { FeedStatus } from '../reputation/source.js';
import type { MetricSnapshot } from '../telemetry/metrics.js';

export type WorkerHooks = Readonly<{
  /** Before every message: the worker lives. */
  alive: () => void;
  /** After every message: whoever waits for the roster looks again. */
  stir: () => void;
  hello: () => void;
  listening: (ready: Ready) => void;
  notable: (events: Notables) => void;
  failed: (problem: string) => void;
}>;

export function followWorker(state: WorkerState, hooks: WorkerHooks): void {
  const on = <Body>(topic: string, handler: (body: Body) => void): void => {
    state.member.channel.on(topic, (body) => {
      hooks.alive();
      handler(body as Body);
      hooks.stir();
    });
  };
  on(TOPICS.hello, () => {
    hooks.hello();
    state.greeted = true;
  });
  on<Ready>(TOPICS.ready, (ready) => {
    state.ready = ready;
    state.version = Math.max(state.version, ready.version);
    hooks.listening(ready);
  });
  on<Swapped>(TOPICS.swapped, ({ version, problem }) => {
    if (problem === undefined) state.version = version;
    else state.refused = { version, problem };
  });
  on(TOPICS.pong, () => undefined);
  on<MetricSnapshot>(TOPICS.metrics, (snapshot) => void (state.metrics = snapshot));
  on<FeedStatus[]>(TOPICS.feeds, (statuses) => {
    state.feeds = { statuses, atMs: steadyClock.nowMs() };
  });
  on<LimitStoreHealth>(TOPICS.limitStore, (health) => void (state.limits = health));
  on<Notables>(TOPICS.notable, hooks.notable);
  on<Failed>(TOPICS.failed, ({ problem }) => hooks.failed(problem));
}
