/**
 * How a crowd asks: who they are, for what, with which software, and how it ends. Small and mergeable; told
 * apart by it are people (sessions that last, many pages with what belongs to them, several browsers) and one
 * tool behind many addresses.
 */
import { z } from 'zod';
import type { Observation } from '../../core/observation.js';
import { openHyperLogLog, type HyperLogLog } from '../../structures/hyper-log-log.js';
import { textHash } from '../../structures/text-hash.js';
import { isAsset, templateOf } from '../route.js';

const SHAPES_MAX = 24;
const NAMES_MAX = 8;
const SESSIONS_PRECISION = 10;

type Shape = { count: number; sample: string };

export type Profile = {
  requests: number;
  /** With a session or a key. */
  identified: number;
  /** Different sessions and keys. */
  identities: HyperLogLog;
  errors: number;
  /** Not assets; `paths`: the different ones of them. */
  pages: number;
  paths: HyperLogLog;
  /** Anything but GET, HEAD and OPTIONS, and those of them that failed. */
  posts: number;
  failedPosts: number;
  /** Different names in what failed of them. */
  users: HyperLogLog;
  /** Refused by rules or score. */
  refused: number;
  /** Kinds of URL, the first few; the rest counts in `requests` alone. */
  shapes: Map<number, Shape>;
  /** Orders of header fields, the first few. */
  headers: Map<string, number>;
  agents: Map<string, number>;
};

export const newProfile = (): Profile => ({
  requests: 0,
  identified: 0,
  identities: openHyperLogLog(SESSIONS_PRECISION),
  errors: 0,
  pages: 0,
  paths: openHyperLogLog(SESSIONS_PRECISION),
  posts: 0,
  failedPosts: 0,
  users: openHyperLogLog(SESSIONS_PRECISION),
  refused: 0,
  shapes: new Map(),
  headers: new Map(),
  agents: new Map(),
});

export function noteRequest(profile: Profile, seen: Observation): void {
  const { site, method, path, headerHash } = seen;
  profile.requests++;
  const identity = seen.session ?? seen.apiKey;
  if (identity !== undefined) {
    profile.identified++;
    profile.identities.add(identity);
  }
  if (seen.status >= 400) profile.errors++;
  if (seen.refusal === 'rules' || seen.refusal === 'score') profile.refused++;
  if (!READS.has(method)) notePost(profile, seen);
  if (!isAsset(path)) {
    profile.pages++;
    profile.paths.add(path);
  }
  const hash = shapeOf(site, method, path);
  const shape = profile.shapes.get(hash);
  if (shape !== undefined) shape.count++;
  else if (profile.shapes.size < SHAPES_MAX)
    profile.shapes.set(hash, { count: 1, sample: `${site} ${method} ${templateOf(path)}` });
  if (headerHash !== undefined) raise(profile.headers, headerHash, 1);
  raise(profile.agents, seen.userAgent, 1);
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

function notePost(profile: Profile, { status, user }: Observation): void {
  profile.posts++;
  if (status < 400) return;
  profile.failedPosts++;
  if (user !== undefined) profile.users.add(user);
}

function raise(counts: Map<string, number>, name: string, by: number): void {
  const count = counts.get(name);
  if (count !== undefined) counts.set(name, count + by);
  else if (counts.size < NAMES_MAX) counts.set(name, by);
}

const WORDS_MAX = 3;
const WORD_MAX = 24;

/** The same for `/p/1` and `/p/2`: numbers, titles and long words are anything. Makes no text. */
export function shapeOf(site: string, method: string, path: string): number {
  let hash = textHash(site) ^ textHash(method);
  let start = 0;
  while (start < path.length) {
    let end = start + 1;
    let word = 17;
    let hyphens = 0;
    let digits = false;
    for (let code; end < path.length && (code = path.charCodeAt(end)) !== 47; end++) {
      if (code >= 48 && code <= 57) digits = true;
      else if (code === 45 || code === 95) hyphens++;
      word = Math.imul(word ^ code, 0x01000193);
    }
    const anything = digits || hyphens >= WORDS_MAX || end - start > WORD_MAX;
    hash = Math.imul(hash ^ (anything ? 42 : word), 0x5bd1e995) ^ (hash >>> 15);
    start = end;
  }
  return hash >>> 0;
}

/** Takes `other` in; `other` stays as it is. */
export function mergeProfile(into: Profile, other: Profile): void {
  into.requests += other.requests;
  into.identified += other.identified;
  into.identities.merge(other.identities);
  into.errors += other.errors;
  into.pages += other.pages;
  into.paths.merge(other.paths);
  into.posts += other.posts;
  into.failedPosts += other.failedPosts;
  into.users.merge(other.users);
  into.refused += other.refused;
  for (const [hash, { count, sample }] of other.shapes) {
    const known = into.shapes.get(hash);
    if (known !== undefined) known.count += count;
    else into.shapes.set(hash, { count, sample });
  }
  for (const [name, count] of other.headers) into.headers.set(name, (into.headers.get(name) ?? 0) + count);
  for (const [name, count] of other.agents) into.agents.set(name, (into.agents.get(name) ?? 0) + count);
}

export type Traits = Readonly<{
  /** Nobody keeps a session: there is none, or each is thrown away. */
  anonymous: boolean;
  /** Nearly all for one kind of URL; nothing that belongs to a page. */
  oneUrl: boolean;
  /** What it is. */
  url: string;
  failing: boolean;
  /** It calls itself a browser. */
  browser: boolean;
  /** One order of header fields; browsers have several, for pages and what belongs to them. */
  oneHeader: boolean;
  /** Page after page of the site, hardly one twice: what many people ask for comes again and again. */
  walking: boolean;
  /** Different pages. */
  pages: number;
  /** The software that most requests name. */
  agent: string;
  agentCount: number;
}>;

const ANONYMOUS_SHARE = 0.05;
/** Requests of one session on average below which it is thrown away; a page alone takes several. */
const THROWN_AWAY = 5;
const ONE_URL_SHARE = 0.8;
const FAILING_SHARE = 0.5;
const ONE_HEADER_SHARE = 0.9;

export function traitsOf(profile: Profile): Traits {
  const { requests, identified, errors } = profile;
  const [url, urlCount] = top([...profile.shapes.values()].map(({ sample, count }) => [sample, count]));
  const [, headerCount] = top([...profile.headers]);
  const [agent, agentCount] = top([...profile.agents]);
  return {
    anonymous: isAnonymous(requests, identified, profile.identities.count()),
    oneUrl: urlCount >= ONE_URL_SHARE * requests,
    url,
    failing: errors >= FAILING_SHARE * requests,
    browser: agent.startsWith('Mozilla/'),
    oneHeader: headerCount >= ONE_HEADER_SHARE * requests,
    ...walkOf(profile),
    agent,
    agentCount,
  };
}

/** Whether sessions are absent or thrown away, of so many requests, those with one, and different ones. */
export const isAnonymous = (requests: number, identified: number, identities: number): boolean =>
  identified <= ANONYMOUS_SHARE * requests || identified < THROWN_AWAY * Math.max(1, identities);

const PAGES_MIN = 50;
const WALKED_SHARE = 0.3;
/** Browsers of people load what belongs to a page. */
const ASSETS_MAX = 0.2;

function walkOf({ requests, pages, paths }: Profile): Pick<Traits, 'walking' | 'pages'> {
  const different = Math.min(pages, paths.count());
  const bare = requests - pages <= ASSETS_MAX * requests;
  return { pages: different, walking: bare && different >= PAGES_MIN && different >= WALKED_SHARE * pages };
}

const POSTS_SHARE = 0.3;
const POSTS_MIN = 20;
const REFUSED_SHARE = 0.05;
/** Names on each source from which they are tried out; a person has one. */
const USERS_EACH = 1.2;

/**
 * What it does that harms, in words; empty: it looks odd and does nobody harm. Feeds, previews, updates and
 * apps ask for little, again and again the same, and without a cookie; so what they send counts only where
 * it fails with one name after the other. `sources`: addresses or networks that it came from.
 */
export function harmOf(profile: Profile, traits: Traits, sources: number): readonly string[] {
  const { requests, posts, failedPosts, users, refused } = profile;
  const many = posts >= Math.max(POSTS_MIN, POSTS_SHARE * requests);
  const tries = failedPosts >= FAILING_SHARE * posts && users.count() >= USERS_EACH * sources;
  const harms = [
    [traits.walking, `${traits.pages} different pages`],
    [many && (traits.browser || tries), `${posts} forms or logins`],
    [refused >= Math.max(POSTS_MIN, REFUSED_SHARE * requests), `${refused} refused by rules`],
  ] as const;
  return harms.filter(([holds]) => holds).map(([, harm]) => harm);
}

/** The most that a pattern is believed that does no harm: it is watched. */
export const WATCHED = 0.7;

function top(counts: readonly (readonly [string, number])[]): readonly [string, number] {
  return counts.reduce((best, one) => (one[1] > best[1] ? one : best), ['', 0] as const);
}

const counted = z.array(z.tuple([z.string(), z.number()]));

export const savedProfile = z.tuple([
  z.number(),
  z.number(),
  z.string(),
  z.number(),
  z.array(z.tuple([z.number(), z.number(), z.string()])),
  counted,
  counted,
  z.tuple([z.number(), z.string(), z.number(), z.number(), z.string(), z.number()]),
]);
export type SavedProfile = z.output<typeof savedProfile>;

export const saveProfile = (profile: Profile): SavedProfile => [
  profile.requests,
  profile.identified,
  profile.identities.save(),
  profile.errors,
  [...profile.shapes].map(([hash, { count, sample }]) => [hash, count, sample]),
  [...profile.headers],
  [...profile.agents],
  [
    profile.pages,
    profile.paths.save(),
    profile.posts,
    profile.failedPosts,
    profile.users.save(),
    profile.refused,
  ],
];

export function openProfile(saved: SavedProfile): Profile {
  const [requests, identified, identities, errors, shapes, headers, agents, done] = saved;
  const [pages, paths, posts, failedPosts, users, refused] = done;
  return {
    requests,
    identified,
    identities: openHyperLogLog(SESSIONS_PRECISION, identities),
    errors,
    pages,
    paths: openHyperLogLog(SESSIONS_PRECISION, paths),
    posts,
    failedPosts,
    users: openHyperLogLog(SESSIONS_PRECISION, users),
    refused,
    shapes: new Map(shapes.map(([hash, count, sample]) => [hash, { count, sample }])),
    headers: new Map(headers),
    agents: new Map(agents),
  };
}
