/**
 * The distinct forms of one value: as received, decoded round by round, and the views of each. A scan over
 * the characters comes first, so that plain values cost nothing more.
 */
import { DECODERS, VIEWS, invisible } from './transform/index.js';
import { decodeBase64 } from './transform/base64.js';
import { decodeForm, decodePercent } from './transform/percent.js';
import type { Transformation } from './transform/transformation.js';
import { foldUtf8, isOverlong } from './transform/utf8.js';

export type Variant = Readonly<{
  text: string;
  /** Transformations in order; the decoding that the place itself asks for is `url`. */
  names: readonly string[];
  /** Layers of encoding taken off beyond what the place asks for. */
  depth: number;
}>;

export type Variants = {
  list: Variant[];
  /** A NUL stands in the text or in a decoded form of it. */
  nul: boolean;
  overlong: boolean;
  /** There are more forms than `variantsMax`, or more layers than `decodeDepth`. */
  cut: boolean;
};

/** How the place itself is encoded: form fields and query arguments, percent only, or not at all. */
export type Encoding = 'form' | 'percent' | 'none';

export type VariantBounds = Readonly<{ decodeDepth: number; variantsMax: number }>;

const BASE64_LAYERS = 3;
const ODD = 1;
const OUTSIDE_BASE64 = 2;
const CLASSES = new Uint8Array(256).map((_zero, code) => {
  const char = String.fromCharCode(code);
  return (
    (/[%&\\/'"$^`+*#{;]/.test(char) || code < 0x20 || code > 0x7e ? ODD : 0) |
    (/[\w+/=-]/.test(char) ? 0 : OUTSIDE_BASE64)
  );
});

/**
 * `plain` text has one form only: no decoder and no view could change it. `base64` might hide something
 * whole.
 */
export function classify(text: string): 'plain' | 'base64' | 'odd' {
  let seen = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    seen |= code < 256 ? (CLASSES[code] ?? 0) : ODD;
    if ((seen & ODD) !== 0) return 'odd';
  }
  return (seen & OUTSIDE_BASE64) !== 0 || text.length < 16 ? 'plain' : 'base64';
}

/** True where `variantsOf` would answer the text alone. */
export function isPlain(text: string): boolean {
  const kind = classify(text);
  if (text.includes('0x')) return false;
  return kind === 'plain' || (kind === 'base64' && decodeBase64(text) === undefined);
}

export function variantsOf(text: string, encoding: Encoding, bounds: VariantBounds): Variants {
  const found: Variants = { list: [], nul: false, overlong: isOverlong(text), cut: false };
  unfold({ text: foldUtf8(text), names: found.overlong ? ['utf8'] : [], depth: 0 }, encoding, {
    bounds,
    found,
    nested: 0,
  });
  return found;
}

type Unfolding = Readonly<{ bounds: VariantBounds; found: Variants; nested: number }>;

function unfold(start: Variant, encoding: Encoding, work: Unfolding): void {
  const { found, bounds } = work;
  const line: Variant[] = [start];
  let last = start;
  const step = (text: string, name: string, deeper: number): void => {
    if (text === last.text) return;
    last = { text, names: [...last.names, name], depth: last.depth + deeper };
    line.push(last);
  };
  if (start.text.includes('+') && encoding === 'form') pushUtf7(start, line);
  if (encoding === 'form') step(decodeForm(last.text), 'url', 0);
  if (encoding === 'percent') step(decodePercent(last.text), 'url', 0);
  for (let round = 0; round < bounds.decodeDepth; round++) {
    const before = last.text;
    for (const decoder of DECODERS) step(decoder.apply(last.text), decoder.name, 1);
    if (before === last.text) break;
    if (round + 1 === bounds.decodeDepth) found.cut ||= DECODERS.some(changes(last.text));
  }
  if (!found.overlong && line.some(({ text }) => text.includes('%')))
    found.overlong = line.some(({ text }) => isOverlong(unescapeBytes(text)));
  for (const variant of line) {
    if (work.nested === 0 && variant.text.includes('\0')) found.nul = true;
    if (!add(variant, found, bounds)) return;
  }
  // What is wholly decoded and what is not at all come first: most readers see one of these.
  const [first, ...between] = line;
  const end = between.pop();
  for (const variant of [end, first, ...between])
    if (variant !== undefined) addViews(variant, found, bounds);
  if (work.nested < BASE64_LAYERS) line.forEach((variant) => openBase64(variant, work));
}

function changes(text: string): (decoder: Transformation) => boolean {
  return (decoder) => decoder.apply(text) !== text;
}

/** In a form `+` is a space, but a back end that reads UTF-7 sees the raw value. */
function pushUtf7(start: Variant, line: Variant[]): void {
  const decoder = DECODERS.find(({ name }) => name === 'utf7');
  const text = decoder?.apply(start.text) ?? start.text;
  if (text !== start.text) line.push({ text, names: [...start.names, 'utf7'], depth: start.depth + 1 });
}

const BYTE = /%([89a-f][0-9a-f])/gi;

function unescapeBytes(text: string): string {
  return text.replace(BYTE, (_whole, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}

function addViews(variant: Variant, found: Variants, bounds: VariantBounds): void {
  const shown = invisible.apply(variant.text);
  const base =
    shown === variant.text ? variant : { ...variant, text: shown, names: [...variant.names, invisible.name] };
  add(base, found, bounds);
  for (const view of VIEWS) {
    for (const from of base === variant ? [base] : [variant, base]) {
      const text = view.apply(from.text);
      if (text !== from.text)
        add({ text, names: [...from.names, view.name], depth: from.depth }, found, bounds);
    }
  }
}

function openBase64(variant: Variant, work: Unfolding): void {
  const bytes = decodeBase64(variant.text);
  if (bytes === undefined) return;
  const text = foldUtf8(bytes);
  const inner: Variant = { text, names: [...variant.names, 'base64'], depth: variant.depth + 1 };
  unfold(inner, 'none', { ...work, nested: work.nested + 1 });
}

function add(variant: Variant, found: Variants, bounds: VariantBounds): boolean {
  if (found.list.some(({ text }) => text === variant.text)) return true;
  if (found.list.length >= bounds.variantsMax) {
    found.cut = true;
    return false;
  }
  found.list.push(variant);
  return true;
}
