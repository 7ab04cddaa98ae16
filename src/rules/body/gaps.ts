/**
 * A long value in windows loses what stands on both sides of a filler longer than a window: a comment of SQL
 * or white space. This reads the decoded pieces in order, leaves such fillers out, and hands on the text
 * around each. The cost is linear; what is kept is bounded.
 */
import type { Encoding } from '../variants.js';
import { DECODERS } from '../transform/index.js';
import { decodeForm, decodePercent } from '../transform/percent.js';
import { foldUtf8 } from '../transform/utf8.js';

const PIECE_CHARS = 16_384;
/** A filler shorter than this lies within one window whole. */
const FILLER_CHARS = 512;
const AROUND_CHARS = 1024;
/** Longest escape of one character; a piece does not end inside of one. */
const ESCAPE_CHARS = 10;
const OPEN = /\/\*|--|#|\s+/g;

export type Gaps = Readonly<{
  /** Reads the next piece; answers texts to judge. */
  next(): string[] | undefined;
}>;

type Reading = { inside: 'text' | 'block' | 'line'; filler: number; wanted: number; kept: string };

export function createGaps(text: string, encoding: Encoding, rounds: number): Gaps {
  const state: Reading = { inside: 'text', filler: 0, wanted: 0, kept: '' };
  let from = 0;
  return {
    next: () => {
      if (from >= text.length) return undefined;
      const to = safeEnd(text, from);
      const found: string[] = [];
      read(decode(text.slice(from, to), encoding, rounds), state, found);
      from = to;
      if (from >= text.length && state.wanted > 0) found.push(state.kept);
      return found;
    },
  };
}

function safeEnd(text: string, from: number): number {
  const end = from + PIECE_CHARS;
  if (end >= text.length) return text.length;
  const near = text.slice(end - ESCAPE_CHARS, end);
  const at = near.search(/[%\\&*/-][^\s]{0,9}$/);
  let cut = at < 0 ? end : end - ESCAPE_CHARS + at;
  // Not between the two characters that open or close a comment either.
  while (cut > end - 2 * ESCAPE_CHARS && /[%\\&*/-]/.test(text[cut - 1] ?? '')) cut--;
  return cut;
}

function decode(piece: string, encoding: Encoding, rounds: number): string {
  const folded = foldUtf8(piece);
  let text =
    encoding === 'form' ? decodeForm(folded) : encoding === 'percent' ? decodePercent(folded) : folded;
  for (let round = 0; round < rounds; round++) {
    const before = text;
    for (const decoder of DECODERS) text = decoder.apply(text);
    if (text === before) break;
  }
  return text;
}

function read(text: string, state: Reading, found: string[]): void {
  let at = 0;
  while (at < text.length) {
    if (state.inside !== 'text') {
      const mark = state.inside === 'block' ? '*/' : '\n';
      const close = text.indexOf(mark, at);
      const end = close < 0 ? text.length : close + mark.length;
      state.filler += end - at;
      at = end;
      if (close >= 0) state.inside = 'text';
      continue;
    }
    OPEN.lastIndex = at;
    const open = OPEN.exec(text);
    keep(text.slice(at, open === null ? text.length : open.index), state, found);
    if (open === null) return;
    const [mark] = open;
    state.filler += mark.length;
    if (mark === '/*') state.inside = 'block';
    else if (mark === '#' || mark === '--') state.inside = 'line';
    at = open.index + mark.length;
  }
}

function keep(part: string, state: Reading, found: string[]): void {
  if (part === '') return;
  if (state.filler >= FILLER_CHARS && state.wanted === 0) state.wanted = AROUND_CHARS;
  const joined = state.kept + (state.filler > 0 ? ' ' : '') + part;
  state.filler = 0;
  if (state.wanted > 0 && part.length >= state.wanted) {
    found.push(joined.slice(0, joined.length - part.length + state.wanted));
    state.wanted = 0;
  } else if (state.wanted > 0) state.wanted -= part.length;
  state.kept = joined.slice(-2 * AROUND_CHARS);
}
