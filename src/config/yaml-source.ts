/**
 * YAML text → plain values, with the line of every key kept for messages. YAML 1.2 core schema, string keys,
 * no merge keys. Bounded: text size, and how often aliases may be expanded (the "billion laughs" file).
 */
import { isMap, isNode, isPair, LineCounter, parseDocument, type Document } from 'yaml';
import type { Path, Problem } from './problem.js';

const TEXT_MAX = 4 * 1024 * 1024;
const ALIASES_MAX = 64;
const LEVELS_MAX = 100;

export type YamlSource = Readonly<{
  value: unknown;
  problems: readonly Problem[];
  /** Line (from 1) of the nearest thing there is at or above `path`; of the key itself where `atKey`. */
  lineOf(path: Path, atKey?: boolean): number;
}>;

/** Never throws; what cannot be read is among `problems`. */
export function readYaml(text: string): YamlSource {
  if (text.length > TEXT_MAX) return broken(`found ${text.length} characters; at most ${TEXT_MAX} fit`);
  const lines = new LineCounter();
  let document: Document;
  try {
    document = parseDocument(text, { lineCounter: lines, stringKeys: true, prettyErrors: false });
  } catch (error) {
    return broken(`cannot be read as YAML (${error instanceof Error ? error.message : String(error)})`);
  }
  const problems: Problem[] = [...document.errors, ...document.warnings].map((error) => ({
    path: [],
    line: lines.linePos(error.pos[0]).line,
    message: explain(error.code, error.message),
  }));
  const lineOf = (path: Path, atKey = false): number =>
    lines.linePos(offsetOf(document, path, atKey)).line || 1;
  if (document.errors.length > 0) return { value: undefined, problems, lineOf };
  try {
    const value = document.toJS({ maxAliasCount: ALIASES_MAX }) as unknown;
    const loop = endless(value, []);
    if (loop === undefined) return { value, problems, lineOf };
    const message = 'found an alias of what it stands in, or too many levels; at most 100 fit';
    problems.push({ path: loop.slice(0, 1), message });
    return { value: undefined, problems, lineOf };
  } catch {
    problems.push({
      path: [],
      line: 1,
      message: `aliases expand too often; at most ${ALIASES_MAX} uses fit`,
    });
    return { value: undefined, problems, lineOf };
  }
}

/** Where a value leads deeper than any config does: into itself, by an alias. */
function endless(value: unknown, path: (string | number)[]): (string | number)[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (path.length > LEVELS_MAX) return path;
  for (const [key, child] of Object.entries(value)) {
    const found = endless(child, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function broken(message: string): YamlSource {
  return { value: undefined, problems: [{ path: [], line: 1, message }], lineOf: () => 1 };
}

function explain(code: string, message: string): string {
  if (code === 'DUPLICATE_KEY') return 'this key is there twice; keep one';
  if (code === 'TAB_AS_INDENT') return 'found a tab in the indentation; spaces fit';
  return `not valid YAML: ${message.split('\n')[0] ?? message}`;
}

function offsetOf(document: Document, path: Path, atKey: boolean): number {
  for (let length = path.length; length >= 0; length--) {
    const last = path[length - 1];
    const parent = length === 0 ? document.contents : document.getIn(path.slice(0, length - 1), true);
    if (length > 0 && isMap(parent)) {
      const pair = parent.items.find(
        (item) => isPair(item) && isNode(item.key) && String(item.key) === String(last),
      );
      const node = atKey || !isNode(pair?.value) || !pair.value.range ? pair?.key : pair.value;
      if (isNode(node) && node.range) return node.range[0];
    } else {
      const node = length === 0 ? parent : document.getIn(path.slice(0, length), true);
      if (isNode(node) && node.range) return node.range[0];
    }
  }
  return 0;
}
