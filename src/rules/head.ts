/**
 * The head of a request as values to judge: path, query, headers, cookies. Clean header values and
 * targets are remembered.
 */
import type { Finding } from '../core/finding.js';
import { NO_FINDINGS } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import type { Judge, RuleBook } from './judge.js';
import { createJudge } from './judge.js';
import { addContained } from './body/json-leaves.js';
import { addPairs } from './body/form.js';

const MEMORY_ENTRIES = 4096;
const MEMORY_CHARS = 512;
const TARGETS_ENTRIES = 1024;
const TARGETS_CHARS = 256;

export type HeadInspector = (facts: RequestFacts) => readonly Finding[];

export function createHeadInspector(book: RuleBook): HeadInspector {
  const clean = createMemory();
  const cleanTargets = createTexts();
  // Only what stands in a head without any finding is remembered; exclusions could hide one, so that they
  // switch this off.
  const remembers = book.config.exclusions.length === 0;
  return (facts) => {
    let judge: Judge | undefined;
    let fresh: string[] | undefined;
    const { rawHeaders } = facts;
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const name = rawHeaders[at] ?? '';
      const value = rawHeaders[at + 1] ?? '';
      if (clean.has(name, value)) continue;
      (fresh ??= []).push(name, value);
      addHeader((judge ??= createJudge(book, facts)), name.toLowerCase(), value);
    }
    if (facts.headers.size * 2 < rawHeaders.length)
      addRepeated((judge ??= createJudge(book, facts)), facts);
    const ofHeaders = judge?.flush() ?? NO_FINDINGS;
    if (remembers && fresh !== undefined && ofHeaders.length === 0) clean.addAll(fresh);
    if (remembers && cleanTargets.has(facts.target)) return ofHeaders;
    const ofTarget = inspectTarget((judge ??= createJudge(book, facts)), facts);
    if (ofTarget.length === 0) {
      if (remembers && ofHeaders.length === 0) cleanTargets.add(facts.target);
      return ofHeaders;
    }
    return ofHeaders.length === 0 ? ofTarget : [...ofHeaders, ...ofTarget];
  };
}

/** Path and query, which are all of the target. */
function inspectTarget(judge: Judge, facts: RequestFacts): readonly Finding[] {
  judge.add({ target: 'path', name: '', text: facts.path, encoding: 'percent' });
  if (facts.cleanPath !== facts.path)
    judge.add({ target: 'path', name: '', text: facts.cleanPath, encoding: 'none' });
  addSegments(judge, facts.path);
  if (facts.query !== '') addQuery(judge, facts.query);
  return judge.flush();
}

function addHeader(judge: Judge, name: string, value: string): void {
  if (name === 'cookie') addCookies(judge, value);
  else {
    judge.add({ target: 'header', name, text: value, encoding: 'percent' });
    if (name.endsWith('authorization')) addContained(judge, { target: 'header', name, text: value });
  }
}

function addCookies(judge: Judge, value: string): void {
  for (const piece of value.split(';')) {
    const equals = piece.indexOf('=');
    const name = (equals < 0 ? '' : piece.slice(0, equals)).trim();
    const text = piece.slice(equals + 1).trim();
    judge.add({ target: 'cookie', name, text, encoding: 'percent' });
    addContained(judge, { target: 'cookie', name, text });
    if (name !== '') judge.add({ target: 'cookie', name: '', text: name, encoding: 'percent' });
  }
}

/** A payload may be split over lines of one name: joined as a list and glued together, both are judged. */
function addRepeated(judge: Judge, facts: RequestFacts): void {
  const byName = new Map<string, string[]>();
  for (let at = 0; at + 1 < facts.rawHeaders.length; at += 2) {
    const name = (facts.rawHeaders[at] ?? '').toLowerCase();
    const values = byName.get(name) ?? [];
    values.push(facts.rawHeaders[at + 1] ?? '');
    byName.set(name, values);
  }
  for (const [name, values] of byName) {
    if (values.length < 2) continue;
    addHeader(judge, name, values.join(''));
    addHeader(judge, name, values.join(name === 'cookie' ? '; ' : ', '));
  }
}

/** What a segment of an ordinary path is made of; anything else may be a value that the origin routes by. */
const PLAIN_SEGMENT = /^[\w.~@,:-]*$/;
const SEGMENTS_MAX = 64;

/**
 * Origins route `/users/1` to a query for user 1: each segment is a value, decoded as one. A payload may hold
 * slashes of its own (a comment of SQL), so the path from its first odd segment on is one value more.
 */
function addSegments(judge: Judge, path: string): void {
  if (PLAIN_SEGMENT.test(path.replaceAll('/', ''))) return;
  const segments = path.split('/');
  const odd = segments.flatMap((text, at) => (PLAIN_SEGMENT.test(text) ? [] : [at]));
  const first = odd[0] ?? 0;
  const values = odd.slice(0, SEGMENTS_MAX).map((at) => segments[at] ?? '');
  // The value may begin in the plain segment before: `/1/**` + `/or/…`.
  for (const from of [first, first - 1])
    if (from > 0 && from + 1 < segments.length) values.push(segments.slice(from).join('/'));
  for (const text of values) {
    judge.add({ target: 'segment', name: '', text, encoding: 'percent' });
    if (text.includes('+')) judge.add({ target: 'segment', name: '', text, encoding: 'form' });
  }
}

const SPLIT_REFERENCE = /&(?:#|[a-z]{2,10};)/i;

function addQuery(judge: Judge, query: string): void {
  if (!query.includes('=')) judge.add({ target: 'query', name: '', text: query, encoding: 'form' });
  else {
    addPairs(judge, query, 'query');
    // An HTML reference in a value looks like the next argument; the whole then holds what the parts lost.
    if (SPLIT_REFERENCE.test(query)) judge.add({ target: 'query', name: '', text: query, encoding: 'form' });
  }
}

type Memory = { has(name: string, value: string): boolean; addAll(lines: readonly string[]): void };

/** Two generations of values by header name; when the young one is full it becomes the old one. */
function createMemory(): Memory {
  let young = new Map<string, Set<string>>();
  let old = new Map<string, Set<string>>();
  let count = 0;
  return {
    has: (name, value) => young.get(name)?.has(value) === true || old.get(name)?.has(value) === true,
    addAll: (lines) => {
      for (let at = 0; at + 1 < lines.length; at += 2) {
        const name = lines[at] ?? '';
        const value = lines[at + 1] ?? '';
        if (value.length > MEMORY_CHARS) continue;
        if (++count > MEMORY_ENTRIES) {
          old = young;
          young = new Map();
          count = 1;
        }
        const values = young.get(name) ?? new Set();
        young.set(name, values.add(value));
      }
    },
  };
}

type Texts = { has(text: string): boolean; add(text: string): void };

/** The same for whole texts: pages that are asked for again and again. */
function createTexts(): Texts {
  let young = new Set<string>();
  let old = new Set<string>();
  return {
    has: (text) => young.has(text) || old.has(text),
    add: (text) => {
      if (text.length > TARGETS_CHARS) return;
      if (young.size >= TARGETS_ENTRIES) {
        old = young;
        young = new Set();
      }
      young.add(text);
    },
  };
}
