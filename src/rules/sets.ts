/**
 * Many patterns in one pass (RE2.Set): which rules may match a text. A set throws when its automaton outgrows
 * its memory; it is then split in halves for good, down to single patterns. A throw is never taken for "no
 * match".
 */
import RE2 from 're2';
import type { Rule } from './rule.js';

const LIGHT_MAX = 320;
const HEAVY_MAX = 128;
/** An open repeat of nearly anything: once begun it stays alive, and many at once multiply the states. */
const HEAVY = /(?:\.|\[\^(?:\\.|[^\]\\])*\]|\\[SWD])[*+]/;
const COUNT_KEPT = 3;

export type RuleSet = Readonly<{
  /**
   * Indices into the rules that the set was made of. Text may hold several values, one a line: an answer is a
   * hint.
   */
  match(text: string): readonly number[];
  readonly size: number;
  /** How often a set outgrew its memory. */
  overflows(): number;
}>;

type Piece = {
  patterns: readonly string[];
  owners: readonly number[];
  set: InstanceType<typeof RE2.Set> | RE2;
};

const NONE: readonly number[] = Object.freeze([]);

export function createRuleSet(rules: readonly Rule[]): RuleSet {
  const all = rules.flatMap((rule, owner) => rule.patterns.map((text) => ({ pattern: widen(text), owner })));
  const heavy = all.filter(({ pattern }) => HEAVY.test(pattern));
  const light = all.filter(({ pattern }) => !HEAVY.test(pattern));
  const pieces = [...buildAll(light, LIGHT_MAX), ...buildAll(heavy, HEAVY_MAX)];
  let overflows = 0;
  const matchPiece = (index: number, text: Buffer): readonly number[] => {
    const piece = pieces[index];
    if (piece === undefined) return NONE;
    if (piece.set instanceof RE2) return piece.set.test(text.toString()) ? piece.owners : NONE;
    try {
      const hits = piece.set.match(text);
      return hits.length === 0 ? NONE : hits.map((hit) => piece.owners[hit] ?? 0);
    } catch {
      overflows++;
      pieces.splice(index, 1, ...split(piece));
      return [...matchPiece(index, text), ...matchPiece(index + 1, text)];
    }
  };
  return {
    match: (given) => {
      const text = toBytes(given);
      let found = NONE;
      for (let index = 0; index < pieces.length; index++) {
        const before = pieces.length;
        const hits = matchPiece(index, text);
        if (hits.length > 0) found = found.length === 0 ? hits : [...found, ...hits];
        index += pieces.length - before;
      }
      return found;
    },
    size: all.length,
    overflows: () => overflows,
  };
}

const SHARED = Buffer.allocUnsafe(65_536);
const SHARED_CHARS = Math.floor(SHARED.length / 3);

/**
 * RE2 reads bytes: a pass over a buffer costs half of a pass over a string. The shared one serves short
 * texts.
 */
function toBytes(text: string): Buffer {
  return text.length > SHARED_CHARS ? Buffer.from(text) : SHARED.subarray(0, SHARED.write(text));
}

function buildAll(all: readonly { pattern: string; owner: number }[], max: number): Piece[] {
  const pieces: Piece[] = [];
  for (let from = 0; from < all.length; from += max) {
    const some = all.slice(from, from + max);
    pieces.push(
      ...build(
        some.map(({ pattern }) => pattern),
        some.map(({ owner }) => owner),
      ),
    );
  }
  return pieces;
}

function build(patterns: readonly string[], owners: readonly number[]): Piece[] {
  if (patterns.length === 0) return [];
  try {
    const set = patterns.length === 1 ? new RE2(patterns[0] ?? '', 'ismu') : new RE2.Set(patterns, 'ismu');
    return [{ patterns, owners, set }];
  } catch (error) {
    if (patterns.length === 1) throw error;
    return split({ patterns, owners });
  }
}

function split({ patterns, owners }: Pick<Piece, 'patterns' | 'owners'>): Piece[] {
  const half = Math.ceil(patterns.length / 2);
  return [
    ...build(patterns.slice(0, half), owners.slice(0, half)),
    ...build(patterns.slice(half), owners.slice(half)),
  ];
}

const TOKEN =
  /\\x\{[0-9a-f]+\}|\\p\{\^?\w+\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|\{(\d+)(?:(,)(\d*))?\}/gi;

/**
 * What stands in the set is wider than the rule, as an answer is a hint only. Values stand one a line, so the
 * ends of the text (`\A`, `\z`) are ends of a line. Counted repeats become open ones: each count would be a
 * state of its own, and the automaton of many such patterns outgrows its memory on ordinary text.
 */
export function widen(pattern: string): string {
  return pattern.replace(
    TOKEN,
    (token, least: string | undefined, comma: string | undefined, most: string | undefined) => {
      if (token === '\\A') return '^';
      if (token === '\\z') return '$';
      if (least === undefined) return token;
      const upper = comma === undefined ? Number(least) : most === '' ? Infinity : Number(most);
      return upper <= COUNT_KEPT ? token : least === '0' ? '*' : '+';
    },
  );
}
