/**
 * One spelling for the paths that many origins take for the same. Policies match it and count by it, so that
 * no other spelling leads around a limit or gets a bucket of its own.
 */
const ODD = /;|[.\s\0]+(?:\/|$)/;

/**
 * The one spelling that paths are matched and counted in. Path parameters go as Tomcat drops them
 * (`/api/;x/login`, `/a;b/..;/login`), trailing dots and spaces of a segment as IIS drops them.
 */
export function foldPath(cleanPath: string): string {
  let path = cleanPath.toLowerCase();
  if (ODD.test(path)) path = `/${plainSegments(path).join('/')}`;
  let end = path.length;
  while (end > 1 && path.charCodeAt(end - 1) === 47) end--;
  return end === path.length ? path : path.slice(0, end);
}

function plainSegments(path: string): string[] {
  const kept: string[] = [];
  for (const raw of path.split('/')) {
    const segment = raw.split(';', 1)[0] ?? '';
    if (segment === '..') kept.pop();
    else {
      const plain = segment.replace(/[.\s\0]+$/, '');
      if (plain !== '') kept.push(plain);
    }
  }
  return kept;
}

/** Rails and its like route `/login.json` as `/login`. */
const FORMAT = /\.(?:json|xml|html)$/;

/** `foldedPath` without such an ending; the same text where it has none. */
export function withoutFormat(foldedPath: string): string {
  return FORMAT.test(foldedPath) ? foldedPath.replace(FORMAT, '') : foldedPath;
}
