/** Events as gates would have written them, made from what the correlator reads of them. */
import { keyOf } from '../../src/bus/key.js';
import type { DecisionEvent } from '../../src/core/event.js';
import type { Observation } from '../../src/core/observation.js';

const NO_TIME = { total: 900, reputation: 5, limits: 40, headers: 5, rules: 200, decision: 5 };

/** `observationOf` of it is the observation again. */
export function eventOf(observation: Observation): DecisionEvent {
  const { ip, key, asn, userAgent, session, apiKey, user, headerHash, ja4, near, refusal } = observation;
  const optional = { asn, session, apiKey, user, headerHash, ja4 };
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined));
  const { timeMs, requestId, node, site, method, path, status, upstreamStatus } = observation;
  return {
    v: 1,
    time: new Date(timeMs).toISOString(),
    requestId,
    node,
    worker: 1,
    site,
    host: 'app.test',
    client: { ip, key, userAgent, ...given },
    method,
    path,
    status,
    action: refusal === 'none' ? 'pass' : refusal === 'limit' ? 'limit' : 'block',
    reason: '',
    ruleIds: refusal === 'rules' ? ['TG-1'] : [],
    score: 0,
    steps: [],
    durationUs: NO_TIME,
    ...(upstreamStatus === 0
      ? {}
      : { upstream: { address: '127.0.0.1:80', status: upstreamStatus, durationUs: 700, attempts: 1 } }),
    bytesIn: 0,
    bytesOut: 100,
    ...(near === undefined ? {} : { near }),
  };
}

export type Message = Readonly<{ key: string; value: string }>;

/** As the gate's publisher would put it on the topic. */
export const messageOf = (observation: Observation): Message => ({
  key: keyOf(observation),
  value: JSON.stringify(eventOf(observation)),
});
