/**
 * The same rare user agent over thousands of addresses: a botnet with one tool. Rare is judged against the
 * agent's own normal share. New alone is no sign (an app's new version, a fresh browser, a product launch are
 * new too): it must also do what people do not, by several signs at once.
 *
 * Bans are for addresses, not for the order of header fields: that order is shared by everybody with the same
 * library, and a tool changes it more easily than a botnet its addresses.
 */
import { z } from 'zod';
import { span } from '../../core/schema.js';
import { detectorShape, rounded } from '../common.js';
import type { Detection, Detector, DetectorPart, GoodRequest } from '../detector.js';
import { templateOf } from '../route.js';
import { type AgentsPart, type Crowd, gatherAgents, openAgents } from './agents.js';
import { harmOf, traitsOf, WATCHED, type Traits } from './profile.js';
import { byCount, spanOf, suspectOf } from './sighting.js';

export const rareAgentSection = z
  .strictObject({
    ...detectorShape(0.8),
    window: span('30m', { min: 60_000, max: 86_400_000 }).describe('How far back addresses are counted.'),
    addresses: z
      .number()
      .int()
      .min(50)
      .default(1000)
      .describe('From so many addresses with the same agent (an estimate, some 3 % off) it is looked at.'),
    surge: z
      .number()
      .min(1)
      .default(10)
      .describe("Its part of all addresses must be so many times the agent's normal one."),
    rareShare: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe('An agent that normally has more than this part of all addresses is never rare.'),
    learn: span('1h', { min: 60_000 }).describe(
      'Traffic that it must have seen first: before, nobody knows what is normal, and it finds nothing.',
    ),
    memory: span('7d', { min: 3_600_000 }).describe(
      'After so long an old day counts half for what is normal.',
    ),
    agentsMax: z
      .number()
      .int()
      .min(50)
      .max(10_000)
      .default(256)
      .describe('Agents remembered for each partition and sixth of the window; the rarest go first.'),
    sourcesMax: z
      .number()
      .int()
      .min(100)
      .max(1_000_000)
      .default(20_000)
      .describe('Addresses of rare agents remembered for each partition; more are counted, not remembered.'),
  })
  .prefault({});

export type RareAgentConfig = z.output<typeof rareAgentSection>;

const BUCKETS = 6;
const SUSPECTS_MAX = 10_000;
/** One sign alone is not reported: many apps keep no session, many feeds have one URL. */
const SIGNS_MIN = 2;
const SESSIONLESS = 0.05;

/** Opens parts that `evaluate` of the same detector understands; throws a ZodError on other text. */
export function createRareAgent(config: RareAgentConfig): Detector {
  const options = {
    bucketMs: Math.ceil(config.window / BUCKETS),
    buckets: BUCKETS,
    learnMs: config.learn + config.window,
    halfLifeMs: config.memory,
    agentsMax: config.agentsMax,
    sourcesMax: config.sourcesMax,
  };
  const parts = new WeakMap<DetectorPart, AgentsPart>();
  return {
    name: 'rareAgent',
    open(saved) {
      const part = openAgents(options, saved);
      parts.set(part, part);
      return part;
    },
    evaluate(given, nowMs) {
      const mine = given.flatMap((part) => parts.get(part) ?? []);
      const look = { sinceMs: nowMs - config.window, addressesMin: config.addresses, surge: config.surge };
      return gatherAgents(mine, look).flatMap((crowd) => judge(config, crowd) ?? []);
    },
  };
}

function judge(config: RareAgentConfig, crowd: Crowd): Detection | undefined {
  const { addresses, share, normalShare, agents } = crowd;
  if (addresses < config.addresses || normalShare > config.rareShare) return undefined;
  const traits = traitsOf(crowd.profile);
  const signs = signsOf(traits);
  // Sessions that last are people's, or another detector's matter.
  if (signs.length < SIGNS_MIN || !(traits.anonymous || traits.failing)) return undefined;
  const harms = harmOf(crowd.profile, traits, addresses);
  const suspects = suspectsOf(crowd);
  if (suspects.length === 0) return undefined;
  const familiar = crowd.familyShare * config.surge > share;
  const { requests, identified, errors } = crowd.profile;
  const name = nameOf(agents);
  const sure = 0.3 + signs.reduce((sum, [, weight]) => sum + weight, 0) - (familiar ? 0.2 : 0);
  return {
    detector: 'rareAgent',
    pattern: `rare ${name}`,
    confidence: rounded(Math.min(harms.length > 0 ? 0.99 : WATCHED, sure)),
    summary:
      `About ${addresses} addresses came with ${name}: ${percent(share)} of all, normally ` +
      `${percent(normalShare)} (from ${config.addresses} addresses and ${config.surge} times on it is looked ` +
      `at). Unlike people: ${signs.map(([sign]) => sign).join('; ')}.` +
      (harms.length > 0 ? ` It did: ${harms.join('; ')}.` : ' It does no harm.') +
      (familiar ? ' Other versions of it are usual here.' : ''),
    counts: { addresses, requests, identified, errors, signs: signs.length },
    ...spanOf(suspects),
    suspects,
    explains: alike(agents, traits),
  };
}

/** The versions of one family, where no one of them is enough. */
function nameOf([agent = '', ...others]: readonly string[]): string {
  if (agent === '') return 'no user agent';
  const versions = others.length > 0 ? ` and ${others.length} other versions` : '';
  return `user agent ${agent.slice(0, 100)}${versions}`;
}

const percent = (part: number): string => `${(100 * part).toFixed(part < 0.01 ? 2 : 0)} %`;

/** What people do not do, and how much it says. */
function signsOf(traits: Traits): (readonly [sign: string, weight: number])[] {
  const signs = [
    [traits.anonymous, 'no session lasts', 0.25],
    [traits.oneUrl, `nearly all asked for ${traits.url}`, 0.25],
    [traits.walking, 'page after page, hardly one twice', 0.25],
    [traits.failing, 'most requests fail', 0.2],
    [traits.browser && traits.oneHeader, 'a browser with one order of header fields', 0.2],
  ] as const;
  return signs.filter(([holds]) => holds).map(([, sign, weight]) => [sign, weight]);
}

/** Where the crowd keeps no sessions, who has one is somebody else with the same software. */
function suspectsOf({ sources, profile }: Crowd): Detection['suspects'] {
  const sessionless = profile.identified <= SESSIONLESS * profile.requests;
  return [...sources]
    .filter(([, { named }]) => !sessionless || named === 0)
    .map(([value, { seen }]) => suspectOf({ kind: 'network', value }, seen))
    .sort(byCount)
    .slice(0, SUSPECTS_MAX);
}

/** With its agent and, where it has only one, for its URL. */
function alike(agents: readonly string[], { oneUrl, url }: Traits): (request: GoodRequest) => boolean {
  const names = new Set(agents);
  return ({ userAgent, site, method, path }) =>
    names.has(userAgent) && (!oneUrl || `${site} ${method} ${templateOf(path)}` === url);
}
