/**
 * Many patterns in one pass (RE2.Set): which rules may match a text. A set throws when its automaton outgrows
 * its memory; it is then split in halves for good, down to single patterns. A throw is never taken for "no
 * match".
 */
import RE2 from 're2';
import { atOnce } from '../core/pacer.js';
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
}>;

type SetMatcher = Pick<InstanceType<typeof RE2.Set>, 'match'>;
type Compile = (patterns: readonly string[]) => SetMatcher;
type Piece = {
  patterns: readonly string[];
  owners: readonly number[];
  set: SetMatcher | RE2;
};

const NONE: readonly number[] = Object.freeze([]);

const compileSet: Compile = (patterns) => new RE2.Set([...patterns], 'ismu');

type SetOptions = Readonly<{
  /** Makes a set of several patterns; tests give one that runs out of memory. */
  compile?: Compile;
  /** Runs each time a set outgrew its memory. */
  onOverflow?: () => void;
}>;

export function createRuleSet(rules: readonly Rule[], options: SetOptions = {}): RuleSet {
  return atOnce(buildRuleSet(rules, options));
}

/** The same, yielding between its pieces. */
export function* buildRuleSet(
  rules: readonly Rule[],
  options: SetOptions = {},
): Generator<undefined, RuleSet> {
  const { compile = compileSet, onOverflow = () => undefined } = options;
  const all = rules.flatMap((rule, owner) => rule.patterns.map((text) => ({ pattern: widen(text), owner })));
  const heavy = all.filter(({ pattern }) => HEAVY.test(pattern));
  const light = all.filter(({ pattern }) => !HEAVY.test(pattern));
  const pieces = yield* buildAll(light, LIGHT_MAX, compile);
  pieces.push(...(yield* buildAll(heavy, HEAVY_MAX, compile)));
  /** Undefined where the piece outgrew its memory. */
  const matchPiece = (piece: Piece, text: Buffer): readonly number[] | undefined => {
    if (piece.set instanceof RE2) return piece.set.test(text.toString()) ? piece.owners : NONE;
    try {
      const hits = piece.set.match(text);
      return hits.length === 0 ? NONE : hits.map((hit) => piece.owners[hit] ?? 0);
    } catch {
      return undefined;
    }
  };
  return {
    match: (given) => {
      const text = toBytes(given);
      let found = NONE;
      let index = 0;
      for (let piece; (piece = pieces[index]) !== undefined;) {
        const hits = matchPiece(piece, text);
        if (hits === undefined) {
          // Its halves take its place, and each is asked in turn: none is left unread, however deep it goes.
          onOverflow();
          pieces.splice(index, 1, ...split(piece, compile));
          continue;
        }
        if (hits.length > 0) found = found.length === 0 ? hits : [...found, ...hits];
        index++;
      }
      return found;
    },
    size: all.length,
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

type Owned = Readonly<{ pattern: string; owner: number }>;

function* buildAll(
  all: readonly Owned[],
  max: number,
  compile: Compile,
): Generator<undefined, Piece[]> {
  const pieces: Piece[] = [];
  for (let from = 0; from < all.length; from += max) {
    const some = all.slice(from, from + max);
    pieces.push(
      ...build(
        { patterns: some.map(({ pattern }) => pattern), owners: some.map(({ owner }) => owner) },
        compile,
      ),
    );
    yield;
  }
  return pieces;
}

type Uncompiled = Pick<Piece, 'patterns' | 'owners'>;

function build({ patterns, owners }: Uncompiled, compile: Compile): Piece[] {
  if (patterns.length === 0) return [];
  try {
    const set = patterns.length === 1 ? new RE2(patterns[0] ?? '', 'ismu') : compile(patterns);
    return [{ patterns, owners, set }];
  } catch (error) {
    if (patterns.length === 1) throw error;
    return split({ patterns, owners }, compile);
  }
}

function split({ patterns, owners }: Uncompiled, compile: Compile): Piece[] {
  const half = Math.ceil(patterns.length / 2);
  return [
    ...build({ patterns: patterns.slice(0, half), owners: owners.slice(0, half) }, compile),
    ...build({ patterns: patterns.slice(half), owners: owners.slice(half) }, compile),
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
