/**
 * Which requests a policy counts: method, host and path, compiled at load. Broad on purpose: letter case, a
 * trailing slash and path parameters (`/login;a=b`) do not lead around a limit, as many origins ignore them
 * too.
 */
import RE2 from 're2';

export type Target = Readonly<{ method: string; host: string; path: string }>;
export type Matcher = (target: Target) => boolean;

export type MatchInput = Readonly<{
  method?: string | readonly string[] | undefined;
  path?: string | readonly string[] | undefined;
  host?: string | readonly string[] | undefined;
}>;

export function compileMatch(match: MatchInput): Matcher {
  const methods =
    match.method === undefined
      ? undefined
      : new Set([match.method].flat().map((method) => method.toUpperCase()));
  const hosts = match.host === undefined ? undefined : [match.host].flat().map(compileHost);
  const paths = match.path === undefined ? undefined : [match.path].flat().map(compilePath);
  return ({ method, host, path }) =>
    (methods === undefined || methods.has(method)) &&
    (paths === undefined || anyMatches(paths, path)) &&
    (hosts === undefined || anyMatches(hosts, host));
}

/** The one spelling that paths are matched in. */
export function foldPath(cleanPath: string): string {
  let path = cleanPath.toLowerCase();
  if (path.includes(';')) path = path.replace(/;[^/]*/g, '');
  let end = path.length;
  while (end > 1 && path.charCodeAt(end - 1) === 47) end--;
  return end === path.length ? path : path.slice(0, end);
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
    return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  });
}
