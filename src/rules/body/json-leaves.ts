/** JSON leaves as values to judge, and JSON inside strings, which is read again down to a few levels. */
import type { Judge } from '../judge.js';
import type { Target } from '../rule.js';
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
  if (leaf.kind === 'key') judge.add({ target: 'argname', name: '', text, encoding: 'none' });
  else {
    judge.add({ target, name: leaf.path, text, encoding: 'none' });
    addNestedJson(judge, { target, name: leaf.path, text }, level + 1);
  }
}

/** Where the text is JSON itself, its leaves are judged too. */
export function addNestedJson(judge: Judge, { target, name, text }: Held, level = 1): void {
  const first = text.charCodeAt(0);
  if ((first !== 0x7b && first !== 0x5b) || level > NESTED_LEVELS) return;
  const walker = createJsonWalker(text, NESTED_DEPTH);
  for (let count = 0; count < NESTED_LEAVES; count++) {
    const leaf = walker.next();
    if (leaf === undefined) return;
    addLeaf(judge, { ...leaf, path: leaf.path === '' ? name : `${name}.${leaf.path}` }, target, level);
  }
}
