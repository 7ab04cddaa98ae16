/** JSON leaves as values to judge, and JSON inside strings, which is read again down to a few levels. */
import type { Judge } from '../judge.js';
import type { Target } from '../rule.js';
import { containedIn } from '../transform/containers.js';
import { decodeEscapes } from '../transform/escapes.js';
import type { JsonLeaf } from './json-walker.js';
import { createJsonWalker } from './json-walker.js';

const NESTED_LEVELS = 4;
const NESTED_LEAVES = 2000;
const NESTED_DEPTH = 50;
const DECODED_CHARS = 65_536;

export type Held = Readonly<{ target: Target; name: string; text: string }>;

export function addLeaf(judge: Judge, leaf: JsonLeaf, target: Target, level = 0): void {
  if (leaf.kind === 'scalar' || leaf.kind === 'pause') return;
  // A long string stays as written: the judge takes escapes off in windows.
  const text = leaf.raw.length > DECODED_CHARS ? leaf.raw : decodeEscapes(leaf.raw);
  if (leaf.kind === 'key' && isQueryTerm(leaf.path)) return;
  if (leaf.kind === 'key') {
    judge.add({ target: 'argname', name: '', text, encoding: 'none' });
    // On its own that is an ordinary name; what stands above it tells.
    if (text === 'prototype' && leaf.parent !== '') {
      const both = `${decodeEscapes(leaf.parent)}.${text}`;
      judge.add({ target: 'argname', name: '', text: both, encoding: 'none' });
    }
  } else {
    judge.add({ target, name: leaf.path, text, encoding: 'none' });
    addContained(judge, { target, name: leaf.path, text }, level + 1);
  }
}

/** A comparison of a field inside `where`, `filter` or the like: what clients of a query API send. */
const QUERY_TERM =
  /(?:^|\.)(?:where|filter|query|selector|\$match)\.[\w.$]{1,80}\.?\$(?:eq|ne|gte?|lte?|n?in|exists|all|size)$/;
/** Fields that a sign-in compares; an operator there is an attack wherever it stands. */
const SECRET_FIELD =
  /pass|pwd|user|login|mail|token|secret|session|auth|role|admin|otp\b|pin\b|code\b|key\b|credential|account/i;

function isQueryTerm(path: string): boolean {
  return QUERY_TERM.test(path) && !SECRET_FIELD.test(path);
}

/** Where the text is JSON itself, or holds some in a container, its leaves are judged too. */
export function addContained(judge: Judge, held: Held, level = 1): void {
  if (level > NESTED_LEVELS) return;
  const first = held.text.charCodeAt(0);
  if (first === 0x7b || first === 0x5b) return addNestedJson(judge, held, level);
  for (const text of containedIn(held.text)) {
    if (/^\s{0,20}[{[]/.test(text)) addNestedJson(judge, { ...held, text }, level);
    else judge.add({ ...held, text, encoding: 'none' });
  }
}

function addNestedJson(judge: Judge, { target, name, text }: Held, level: number): void {
  const walker = createJsonWalker(text, NESTED_DEPTH);
  for (let count = 0; count < NESTED_LEAVES; count++) {
    const leaf = walker.next();
    if (leaf === undefined) return;
    addLeaf(judge, { ...leaf, path: leaf.path === '' ? name : `${name}.${leaf.path}` }, target, level);
  }
}
