/**
 * Path → template: what a site calls one page, whatever the numbers and names in it. `/item/4711/reviews` and
 * `/item/12/reviews` are both `/item/:n/reviews`. Guesses from the text alone; a word that looks like an
 * identifier is taken for one, and two routes that differ only in such a word become one.
 */
import { foldPath } from '../core/fold-path.js';

const SEGMENTS_MAX = 8;
const SEGMENT_MAX = 64;
const WORDS_MAX = 3;
const RANDOM_MIN = 12;
const PLAIN_MAX = 24;
const GENERATION_MAX = 4_096;

export type Route = (path: string) => string;

/** Remembers the templates of the last few thousand paths. The same path has the same template for ever. */
export function createRoute(): Route {
  // Two generations: cheaper than an exact order of use when most paths are seen once.
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (path) => {
    const known = young.get(path);
    if (known !== undefined) return known;
    const template = old.get(path) ?? templateOf(path);
    if (young.size >= GENERATION_MAX) [old, young] = [young, new Map()];
    young.set(path, template);
    return template;
  };
}

/** At most 8 segments of at most 64 characters; deeper paths end in `/*`. */
export function templateOf(path: string): string {
  const folded = foldPath(path);
  let template = '';
  let segments = 0;
  for (let start = 0; start < folded.length;) {
    const slash = folded.indexOf('/', start);
    const end = slash < 0 ? folded.length : slash;
    if (end > start) {
      if (++segments > SEGMENTS_MAX) return `${template}/*`;
      template += `/${placeholder(folded, start, end)}`;
    }
    start = end + 1;
  }
  return template === '' ? '/' : template;
}

function placeholder(path: string, start: number, end: number): string {
  let [letters, digits] = [0, 0];
  for (let at = start; at < end; at++) {
    const code = path.charCodeAt(at);
    if (code >= 97 && code <= 122) letters += 1;
    else if (code >= 48 && code <= 57) digits += 1;
  }
  if (digits === end - start) return ':n';
  const segment = path.slice(start, end);
  return letters === end - start && letters <= PLAIN_MAX ? segment : mixed(segment);
}

const ASSETS = new Set(
  (
    'css js mjs map png jpg jpeg gif svg webp avif ico bmp woff woff2 ttf otf eot wasm ' +
    'mp4 webm mp3 ogg m4a m4s ts m3u8 mpd vtt txt'
  ).split(' '),
);

/** What pages load by themselves: pictures, scripts, fonts, pieces of films. Judged by the ending alone. */
export function isAsset(path: string): boolean {
  const length = path.length;
  let dot = length - 1;
  while (dot >= 0 && dot > length - 7 && path.charCodeAt(dot) !== 46) dot -= 1;
  if (dot < 0 || path.charCodeAt(dot) !== 46) return false;
  return ASSETS.has(path.slice(dot + 1).toLowerCase());
}

const UUID = /^\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?$/;
const DATE = /^(?:19|20)\d\d-\d\d(?:-\d\d)?(?:t[\d:.]+z?)?$/;
const ENDING = /\.[a-z][a-z0-9]{0,4}$/;

function mixed(segment: string): string {
  if (UUID.test(segment)) return ':uuid';
  if (DATE.test(segment)) return ':date';
  const ending = ENDING.exec(segment)?.[0] ?? '';
  const stem = segment.slice(0, segment.length - ending.length);
  const words = stem.split(/[-_.~]/);
  // A title in the address: `red-shoes-for-large-feet-4711`.
  if (words.length > WORDS_MAX) return `:slug${ending}`;
  const text = stem.replace(/[^-_.~]+/g, wordOf);
  return text.length > SEGMENT_MAX ? `:long${ending}` : `${text}${ending}`;
}

function wordOf(word: string): string {
  if (/^\d+$/.test(word)) return ':n';
  if (/^(?:0x)?[0-9a-f]{6,}$/.test(word) && /\d/.test(word)) return ':hex';
  return word.length >= RANDOM_MIN && isRandom(word) ? ':id' : word;
}

/** Letters and digits that take turns (`01j9zq3k…`, base64), or a word no language has. */
function isRandom(word: string): boolean {
  const turns = word.match(/\d+|[^\d]+/g)?.length ?? 0;
  return turns >= 4 || word.includes('%') || word.length > 40;
}
