/**
 * Path → template: what a site calls one page, whatever the numbers and names in it. `/item/4711/reviews` and
 * `/item/12/reviews` are both `/item/:n/reviews`. Guesses from the text alone; a word that looks like an
 * identifier is taken for one, and two routes that differ only in such a word become one.
 */
import { LRUCache } from 'lru-cache';
import { foldPath } from '../core/fold-path.js';

const SEGMENTS_MAX = 8;
const SEGMENT_MAX = 64;
const WORDS_MAX = 3;
const RANDOM_MIN = 12;
const CACHE_MAX = 8_192;

export type Route = (path: string) => string;

/** Remembers the templates of the last 8 192 paths. The same path has the same template for ever. */
export function createRoute(): Route {
  const known = new LRUCache<string, string>({ max: CACHE_MAX });
  return (path) => {
    const found = known.get(path);
    if (found !== undefined) return found;
    const template = templateOf(path);
    known.set(path, template);
    return template;
  };
}

/** At most 8 segments of at most 64 characters; deeper paths end in `/*`. */
export function templateOf(path: string): string {
  const segments = foldPath(path)
    .split('/')
    .filter((segment) => segment !== '');
  const kept = segments.slice(0, SEGMENTS_MAX).map(placeholder);
  if (segments.length > SEGMENTS_MAX) kept.push('*');
  return `/${kept.join('/')}`;
}

const ASSETS = new Set(
  (
    'css js mjs map png jpg jpeg gif svg webp avif ico bmp woff woff2 ttf otf eot wasm ' +
    'mp4 webm mp3 ogg m4a m4s ts m3u8 mpd vtt txt'
  ).split(' '),
);

/** What pages load by themselves: pictures, scripts, fonts, pieces of films. Judged by the ending alone. */
export function isAsset(path: string): boolean {
  const dot = path.lastIndexOf('.');
  if (dot < 0 || path.length - dot > 6) return false;
  return ASSETS.has(path.slice(dot + 1).toLowerCase());
}

const PLAIN = /^[a-z]{1,24}$/;
const UUID = /^\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?$/;
const DATE = /^(?:19|20)\d\d-\d\d(?:-\d\d)?(?:t[\d:.]+z?)?$/;
const ENDING = /\.[a-z][a-z0-9]{0,4}$/;

function placeholder(segment: string): string {
  if (PLAIN.test(segment)) return segment;
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
