/**
 * Which requests a policy counts: site, method, host, path and headers, compiled at load. Broad on purpose:
 * letter case, a trailing slash and path parameters (`/login;a=b`) do not lead around a limit, as many
 * origins ignore them too.
 */
import RE2 from 're2';
import { foldPath, withoutFormat } from '../core/fold-path.js';
import type { RequestFacts } from '../core/request.js';

/** `path` is the folded one. */
export type Target = Readonly<{
  site: string;
  method: string;
  host: string;
  path: string;
  headers: RequestFacts['headers'];
}>;
export type Matcher = (target: Target) => boolean;

type Some = string | readonly string[] | undefined;

export type HeaderInput = Readonly<{
  name: string;
  value?: Some;
  present?: boolean | undefined;
}>;

export type MatchInput = Readonly<{
  site?: Some;
  method?: Some;
  path?: Some;
  host?: Some;
  header?: HeaderInput | readonly HeaderInput[] | undefined;
}>;

export function compileMatch(match: MatchInput): Matcher {
  const methods =
    match.method === undefined
      ? undefined
      : new Set([match.method].flat().map((method) => method.toUpperCase()));
  const hosts = match.host === undefined ? undefined : [match.host].flat().map(compileHost);
  const paths = match.path === undefined ? undefined : [match.path].flat().map(compilePath);
  const sites = match.site === undefined ? undefined : new Set([match.site].flat());
  const headers = match.header === undefined ? undefined : [match.header].flat().map(compileHeader);
  return ({ site, method, host, path, headers: given }) =>
    (methods === undefined || methods.has(method)) &&
    (paths === undefined || pathMatches(paths, path)) &&
    (hosts === undefined || anyMatches(hosts, host)) &&
    (sites === undefined || sites.has(site)) &&
    (headers === undefined || headers.every((matches) => matches(given)));
}

function pathMatches(paths: readonly TextMatcher[], path: string): boolean {
  if (anyMatches(paths, path)) return true;
  const plain = withoutFormat(path);
  return plain !== path && anyMatches(paths, plain);
}

type TextMatcher = (text: string) => boolean;

function anyMatches(matchers: readonly TextMatcher[], text: string): boolean {
  for (const matches of matchers) if (matches(text)) return true;
  return false;
}

function compileHost(glob: string): TextMatcher {
  const host = glob.toLowerCase();
  if (host === '*') return () => true;
  if (!host.startsWith('*.')) return (text) => text === host;
  const suffix = host.slice(1);
  return (text) => text.endsWith(suffix) && text.length > suffix.length;
}

/** A repeated header is judged joined, as the origin is likely to read it. */
function compileHeader(header: HeaderInput): (headers: RequestFacts['headers']) => boolean {
  const name = header.name.toLowerCase();
  if (header.present === false) return (headers) => !headers.has(name);
  if (header.value === undefined) return (headers) => headers.has(name);
  const values = [header.value].flat().map(compileText);
  return (headers) => {
    const value = headers.get(name);
    return value !== undefined && anyMatches(values, value);
  };
}

/** `*` is any text, of any length; letter case does not count. */
function compileText(glob: string): TextMatcher {
  const text = glob.toLowerCase();
  if (!text.includes('*')) return (value) => value.toLowerCase() === text;
  const pattern = new RE2(`^${text.split(/\*+/).map(escaped).join('.*')}$`, 'si');
  return (value) => pattern.test(value);
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Exact text and `/prefix/**` need no pattern; the rest runs in RE2, which stays linear on any path. */
function compilePath(text: string): TextMatcher {
  const glob = foldPath(text);
  if (glob === '*' || glob === '**' || glob === '/**') return () => true;
  if (!glob.includes('*')) return (path) => path === glob;
  const prefix = glob.endsWith('/**') ? glob.slice(0, -3) : undefined;
  if (prefix !== undefined && !prefix.includes('*')) {
    const below = `${prefix}/`;
    return (path) => path.startsWith(below) || path === prefix;
  }
  const pattern = new RE2(`^${globPattern(glob)}$`, 's');
  return (path) => pattern.test(path);
}

function globPattern(glob: string): string {
  return glob.replace(/\/\*\*(?=\/|$)|\*\*|\*|[^*/]+|\//g, (part) => {
    if (part === '/**') return '(?:/.*)?';
    if (part === '**') return '.*';
    if (part === '*') return '[^/]*';
    return escaped(part);
  });
}
