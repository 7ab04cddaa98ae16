/** Structured bodies, held until whole: every plausible reading is judged, raw text where no reading fits. */
import type { Finding } from '../../core/finding.js';
import { AMBIGUOUS } from '../../core/identity.js';
import type { Value } from '../judge.js';
import { addPairs } from './form.js';
import type { BodyKind } from './content-type.js';
import { addContained, addLeaf } from './json-leaves.js';
import { createJsonWalker } from './json-walker.js';
import { malformed } from '../malformed.js';
import { openMultipart } from './streams.js';
import type { BodyWork } from './streams.js';
import { decodeEscapes } from '../transform/escapes.js';
import { decodeForm } from '../transform/percent.js';
import { foldUtf8 } from '../transform/utf8.js';
import { addInWindows } from './windows.js';
import { joinedText, looksLikeXml } from './xml-text.js';

/** The value of each field, bounded; what policies ask for by name. Several values are AMBIGUOUS. */
export type Fields = Readonly<{
  set(name: string, value: string): void;
  get(name: string): string | undefined;
  seen(): number;
}>;

/** A step reads at most so many pairs or leaves. */
const STEP_ITEMS = 64;
const FIELD_CHARS = 1024;
const FIELDS_KEPT = 256;

export function createFields(max: number): Fields {
  const kept = new Map<string, string>();
  let seen = 0;
  let full = false;
  return {
    set: (name, value) => {
      seen++;
      const known = kept.get(name);
      const text = foldUtf8(value.slice(0, FIELD_CHARS));
      if (known !== undefined) {
        if (known !== text) kept.set(name, AMBIGUOUS);
      } else if (kept.size < Math.min(max, FIELDS_KEPT)) kept.set(name, text);
      else full = true;
    },
    get: (name) => kept.get(name) ?? (full ? AMBIGUOUS : undefined),
    seen: () => seen,
  };
}

export type WholeWork = Readonly<{ steps: Iterator<void>; problem(): Finding | undefined }>;

/** A held body: its text, what it may be, and how much of it is to be judged as raw text. */
export type WholeBody = Readonly<{
  text: string;
  kinds: ReadonlySet<BodyKind>;
  /** The boundary of its parts, where it may be read as multipart. */
  boundary: string | undefined;
  /** What is left to judge as raw text; undefined where all of it is. */
  rest: string | undefined;
}>;

/** Readings stand beside each other: an origin may take any of them, and raw text where none fits. */
export function judgeWhole({ text, kinds, boundary, rest }: WholeBody, work: BodyWork): WholeWork {
  const { judge, book } = work;
  let problem: Finding | undefined;
  function* run(): Generator<void> {
    let understood = false;
    if (kinds.has('json')) {
      const outcome = yield* readJson(text, work);
      if (typeof outcome === 'object') problem = outcome;
      else understood = outcome === 'read';
    }
    if (
      problem === undefined &&
      (kinds.has('form') || (kinds.has('text') && /^[\w.%[\]+-]{1,100}=/.test(text)))
    ) {
      problem = yield* readForm(text, work);
      understood ||= kinds.has('form') && !kinds.has('json');
    }
    if (boundary !== undefined) yield* readParts(text, boundary, work);
    if (problem !== undefined) return;
    if (!understood || kinds.has('text') || boundary !== undefined) {
      const value: Value = { target: 'raw', name: '', text: rest ?? text, encoding: 'none' };
      yield* addInWindows(judge, value, book.config);
    }
    if (!understood && looksLikeXml(text)) yield* readXml(text, work);
  }
  return { steps: run(), problem: () => problem };
}

function* readXml(text: string, { book, judge }: BodyWork): Generator<void> {
  for (const joined of joinedText(text)) {
    if (joined === undefined) yield;
    else yield* addInWindows(judge, { target: 'raw', name: '', text: joined, encoding: 'none' }, book.config);
  }
}

function* readJson(
  text: string,
  { book, judge, fields }: BodyWork,
): Generator<void, Finding | 'read' | 'broken'> {
  const { config } = book;
  const walker = createJsonWalker(text, config.jsonDepth);
  let read = 0;
  for (;;) {
    const leaf = walker.next();
    if (leaf === undefined) break;
    if (leaf.kind === 'pause') {
      yield;
      continue;
    }
    if (leaf.kind !== 'key') {
      const value = leaf.raw.length > FIELD_CHARS * 4 ? leaf.raw : decodeEscapes(leaf.raw);
      fields.set(plainName(leaf.path), value);
    }
    if (fields.seen() > config.maxFields)
      return malformed('BODY-TOO-MANY-FIELDS', 413, 'the body has too many fields');
    if (leaf.kind === 'string' && leaf.raw.length > config.windowBytes) {
      yield* addInWindows(
        judge,
        { target: 'json', name: leaf.path, text: leaf.raw, encoding: 'none' },
        config,
      );
      addContained(judge, { target: 'json', name: leaf.path, text: leaf.raw.slice(0, config.windowBytes) });
    } else addLeaf(judge, leaf, 'json');
    if (++read % STEP_ITEMS === 0 || judge.pending() >= config.windowBytes / 4) yield;
  }
  if (walker.state() === 'deep') return malformed('JSON-TOO-DEEP', 400, 'the JSON body is nested too deeply');
  return walker.state() === 'done' ? 'read' : 'broken';
}

/** `us\u0065rname` is a name that the origin reads as `username`. */
const plainName = (path: string): string => (path.includes('\\') ? decodeEscapes(path) : path);

/** Parts under a boundary: each value counts, besides the whole; what is no multipart for us is let be. */
function* readParts(text: string, boundary: string, work: BodyWork): Generator<void> {
  const body = openMultipart({ boundary, formData: false }, work);
  const bytes = Buffer.from(text, 'latin1');
  for (const steps of [body.write(bytes), body.end()]) while (steps.next().done !== true) yield;
}

function* readForm(text: string, { book, judge, fields }: BodyWork): Generator<void, Finding | undefined> {
  const { config } = book;
  let from = 0;
  let read = 0;
  while (from < text.length) {
    let to = text.indexOf('&', from);
    if (to < 0) to = text.length;
    const pair = text.slice(from, to);
    from = to + 1;
    if (++read % STEP_ITEMS === 0) yield;
    if (pair.length > config.windowBytes) {
      const name = pair.slice(0, Math.max(0, pair.indexOf('=')));
      fields.set(decodeForm(name.slice(0, 200)), pair.slice(name.length + 1));
      yield* addInWindows(
        judge,
        { target: 'form', name: name.slice(0, 100), text: pair, encoding: 'form' },
        config,
      );
    } else {
      addPairs(judge, pair, 'form', (name, value) => fields.set(decodeForm(name), decodeForm(value)));
      if (judge.pending() >= config.windowBytes / 4) yield;
    }
    if (fields.seen() > config.maxFields)
      return malformed('BODY-TOO-MANY-FIELDS', 413, 'the body has too many fields');
  }
  return undefined;
}
