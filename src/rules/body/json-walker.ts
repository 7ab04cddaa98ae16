/**
 * A JSON reader that hands out keys and leaves one by one (RFC 8259) and keeps its stack on the heap, so that
 * neither depth nor size can hurt. Duplicate keys all count. It stops at the first thing that is not JSON and
 * says so.
 */
export type JsonLeaf = Readonly<{
  /** `pause` is no leaf: many brackets went by without one, and the caller may want to yield. */
  kind: 'key' | 'string' | 'scalar' | 'pause';
  /** Keys joined with dots; array elements share the path of the array. */
  path: string;
  /** The key above this one, undecoded; empty where there is none. */
  parent: string;
  /** Undecoded text: without the quotes, escapes as written. */
  raw: string;
}>;

export type JsonWalker = {
  /** Undefined at the end, or where reading stopped: see `state`. */
  next(): JsonLeaf | undefined;
  state(): 'reading' | 'done' | 'broken' | 'deep';
};

const SPACE = /[ \t\r\n]*/y;
const SCALAR = /-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity/y;
const PATH_CHARS = 120;
const PAUSE_AFTER = 1024;
const PAUSE: JsonLeaf = Object.freeze({ kind: 'pause', path: '', parent: '', raw: '' });

type Frame = { array: boolean; path: string; key: string; started: boolean };

export function createJsonWalker(text: string, depthMax: number): JsonWalker {
  const stack: Frame[] = [];
  let at = text.startsWith('\ufeff') ? 1 : text.startsWith('\xef\xbb\xbf') ? 3 : 0;
  let state: ReturnType<JsonWalker['state']> = 'reading';
  let wantValue = true;
  let path = '';
  let last = '';
  // The next of each from `at` on, found once: Infinity where there is none.
  let quoteAt = -1;
  let escapeAt = -1;
  const find = (char: string, from: number): number => {
    const found = text.indexOf(char, from);
    return found < 0 ? Infinity : found;
  };

  const stop = (how: 'done' | 'broken' | 'deep'): undefined => {
    state = how;
    return undefined;
  };
  const skip = (): void => {
    SPACE.lastIndex = at;
    SPACE.test(text);
    at = SPACE.lastIndex;
  };
  const string = (): string | undefined => {
    const from = ++at;
    for (;;) {
      if (quoteAt < at) quoteAt = find('"', at);
      if (escapeAt < at) escapeAt = find('\\', at);
      if (quoteAt === Infinity) return undefined;
      if (quoteAt < escapeAt) {
        at = quoteAt + 1;
        return text.slice(from, quoteAt);
      }
      at = escapeAt + 2;
    }
  };
  const value = (): JsonLeaf | undefined => {
    const char = text[at];
    if (char === '{' || char === '[') {
      if (stack.length >= depthMax) return stop('deep');
      stack.push({ array: char === '[', path, key: last, started: false });
      at++;
      wantValue = char === '[';
      return undefined;
    }
    wantValue = false;
    if (char === '"') {
      const raw = string();
      return raw === undefined ? stop('broken') : { kind: 'string', path, parent: '', raw };
    }
    SCALAR.lastIndex = at;
    const found = SCALAR.exec(text);
    if (found === null) return stop('broken');
    at = SCALAR.lastIndex;
    return { kind: 'scalar', path, parent: '', raw: found[0] };
  };
  const key = (frame: Frame): JsonLeaf | undefined => {
    if (text[at] !== '"') return stop('broken');
    const raw = string();
    if (raw === undefined) return stop('broken');
    skip();
    if (text[at] !== ':') return stop('broken');
    at++;
    path = (frame.path === '' ? raw : `${frame.path}.${raw}`).slice(0, PATH_CHARS);
    last = raw;
    wantValue = true;
    return { kind: 'key', path, parent: frame.key, raw };
  };
  /** Between values: a comma, the end of the container, or the end of the text. */
  const between = (): JsonLeaf | undefined => {
    const frame = stack[stack.length - 1];
    if (frame === undefined) return at >= text.length ? stop('done') : stop('broken');
    if (text[at] === (frame.array ? ']' : '}')) {
      at++;
      stack.pop();
      wantValue = false;
      return undefined;
    }
    if (frame.started) {
      if (text[at] !== ',') return stop('broken');
      at++;
      skip();
    }
    frame.started = true;
    path = frame.path;
    last = frame.key;
    if (!frame.array) return key(frame);
    wantValue = true;
    return undefined;
  };
  return {
    state: () => state,
    next: () => {
      for (let seen = 1; state === 'reading'; seen++) {
        if (seen % PAUSE_AFTER === 0) return PAUSE;
        skip();
        const top = stack[stack.length - 1];
        if (wantValue && top?.array === true && !top.started && text[at] !== ']') {
          top.started = true;
          path = top.path;
        }
        const leaf =
          wantValue && !(top?.array === true && text[at] === ']' && !top.started) ? value() : between();
        if (leaf !== undefined) return leaf;
      }
      return undefined;
    },
  };
}
