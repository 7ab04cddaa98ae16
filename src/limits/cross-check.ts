/** What the keys of one policy must not say together, and what would fit instead. */
import type { z } from 'zod';

const LOG_LIMIT_MAX = 1000;

type Rate = Readonly<{ limit: number; windowMs: number }>;

type Crossed = Readonly<{
  name: string;
  match: Readonly<{ host?: string | string[] | undefined; path?: string | string[] | undefined }>;
  by: unknown;
  limit: Rate;
  algorithm: string;
  exact: boolean;
  cost: number;
  burst?: number | undefined;
  burstAlarm?: Rate | undefined;
  delayMax: number;
  countOn?: unknown;
  widen?: boolean | undefined;
  cache?: boolean | undefined;
}>;

type Check = readonly [
  path: keyof Crossed,
  wrong: (policy: Crossed) => boolean,
  says: (policy: Crossed) => string,
];

const isBucket = ({ algorithm }: Crossed): boolean =>
  algorithm === 'leaky-bucket' || algorithm === 'token-bucket';
const uncached = ({ exact, algorithm, countOn, delayMax }: Crossed): string | undefined => {
  if (exact) return 'exact: true';
  if (algorithm === 'sliding-log') return algorithm;
  if (countOn !== undefined) return 'countOn';
  return delayMax > 0 ? 'delayMax' : undefined;
};
const HOST = /^(?:\*|(?:\*\.)?[^\s*/:?#@[\]]*[^\s*/:?#@[\].]|\[[0-9a-f:.]+\])$/i;
const oddHost = ({ match }: Crossed): string | undefined =>
  [match.host ?? []].flat().find((host) => !HOST.test(host));
const oddPath = ({ match }: Crossed): string | undefined =>
  [match.path ?? []].flat().find((path) => /[?#]/.test(path));
const ALWAYS = ['ip', 'wideIp', 'path', 'site'];
/** An identity that each request has, other than at the end of the list. */
const alwaysThere = (by: readonly unknown[]): unknown =>
  by.slice(0, -1).find((name) => ALWAYS.some((always) => always === name));
const names = (policy: Crossed): string => JSON.stringify(policy.by);

const CHECKS: readonly Check[] = [
  [
    'match',
    (policy) => oddHost(policy) !== undefined,
    (policy) =>
      `found host ${JSON.stringify(oddHost(policy))}, which nothing matches; a host such as shop.example.com ` +
      'or *.example.com fits, without scheme, port, path and final dot',
  ],
  [
    'match',
    (policy) => oddPath(policy) !== undefined,
    (policy) =>
      `found path ${JSON.stringify(oddPath(policy))}, which nothing matches; a path without query (?) and ` +
      'fragment (#) fits',
  ],
  [
    'limit',
    ({ algorithm, limit }) => algorithm === 'sliding-log' && limit.limit > LOG_LIMIT_MAX,
    () => `sliding-log keeps a stamp per hit; at most ${LOG_LIMIT_MAX} fits, or take sliding-counter`,
  ],
  [
    'cost',
    ({ cost, limit, burst }) => cost > Math.min(limit.limit, burst ?? limit.limit),
    ({ cost }) => `found ${cost}; nothing could ever pass: at most the limit and the burst fits`,
  ],
  [
    'cache',
    (policy) => policy.cache === true && uncached(policy) !== undefined,
    (policy) =>
      `found true beside ${uncached(policy)}, which is never cached; remove cache, or count inexactly`,
  ],
  [
    'burst',
    (policy) => policy.burst !== undefined && !isBucket(policy),
    ({ algorithm }) => `${algorithm} has no bucket; burst fits token-bucket and leaky-bucket`,
  ],
  [
    'delayMax',
    ({ delayMax, algorithm }) => delayMax > 0 && algorithm !== 'leaky-bucket',
    ({ algorithm }) => `${algorithm} cannot delay; delayMax fits leaky-bucket alone`,
  ],
  [
    'countOn',
    ({ countOn, delayMax }) => countOn !== undefined && delayMax > 0,
    () => 'an answer cannot be delayed: countOn or delayMax fits, not both',
  ],
  [
    'burstAlarm',
    ({ burstAlarm, countOn }) => burstAlarm !== undefined && countOn !== undefined,
    () => 'the alarm counts requests, countOn answers: put burstAlarm into a policy of its own',
  ],
  [
    'burstAlarm',
    ({ burstAlarm, cost }) => burstAlarm !== undefined && cost > burstAlarm.limit,
    ({ cost }) => `every request would set it off: at least the cost (${cost}) fits`,
  ],
  [
    'widen',
    (policy) => policy.widen === true && !names(policy).includes('"ip"'),
    () => 'only a limit by ip can be widened for shared addresses',
  ],
  [
    'widen',
    ({ widen, algorithm }) => widen === true && algorithm === 'sliding-log',
    () => 'a widened sliding-log would keep that many stamps: take sliding-counter, or leave widen out',
  ],
  [
    'by',
    ({ by }) => {
      const listed = typeof by === 'object' && by !== null && 'all' in by ? by.all : by;
      return Array.isArray(listed) && new Set(listed).size < listed.length;
    },
    (policy) => `found ${names(policy)}; each identity fits once`,
  ],
  [
    'by',
    ({ by }) => Array.isArray(by) && new Set(by).size === by.length && alwaysThere(by) !== undefined,
    ({ by }) =>
      `found ${JSON.stringify(by)}; ${alwaysThere(by as unknown[])} is always there, so what follows it never ` +
      'counts: put it last, or join them: { all: [...] }',
  ],
];

/** Adds an issue at the key that is wrong, for each of the checks. */
export function crossCheck(policy: Crossed, context: z.RefinementCtx): void {
  for (const [path, wrong, says] of CHECKS) {
    if (wrong(policy)) context.addIssue({ code: 'custom', path: [path], message: says(policy) });
  }
}
