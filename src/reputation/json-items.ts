/**
 * Cuts the objects of one top-level array out of a streamed JSON document, so that a big document is never
 * parsed in one piece. It follows strings and nesting only; each item is left to JSON.parse.
 */

const ITEM_MAX = 256 * 1024;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

type JsonItems = {
  /** False when the document does not begin with `{` or an item is over 256 KB. */
  push(chunk: string): boolean;
  /** True once the outermost object has been closed. */
  complete(): boolean;
};

/** `take` gets the text of each object in the array under `key`. */
export function createJsonItems(key: string, take: (text: string) => void): JsonItems {
  let depth = 0;
  let begun = false;
  let inString = false;
  let escaped = false;
  let inArray = false;
  /**
   * The text kept so far of a top-level string or of an item, and where it goes on in this chunk (-1: none).
   */
  let name = '';
  let nameFrom = -1;
  let item = '';
  let itemFrom = -1;

  const inText = (chunk: string, at: number, code: number): void => {
    if (escaped) escaped = false;
    else if (code === BACKSLASH) escaped = true;
    else if (code === QUOTE) {
      inString = false;
      if (nameFrom >= 0) name += chunk.slice(nameFrom, at);
      nameFrom = -1;
    }
  };
  const beginText = (at: number): void => {
    inString = true;
    if (depth !== 1) return;
    name = '';
    nameFrom = at + 1;
  };
  const open = (at: number, isObject: boolean): void => {
    if (depth === 1) inArray = !isObject && name === key;
    if (depth === 2 && isObject && inArray) itemFrom = at;
    depth++;
  };
  const close = (chunk: string, at: number): void => {
    depth--;
    if (depth === 1) inArray = false;
    if (depth !== 2 || itemFrom < 0) return;
    take(item + chunk.slice(itemFrom, at + 1));
    item = '';
    itemFrom = -1;
  };
  const scan = (chunk: string): boolean => {
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at);
      if (inString) inText(chunk, at, code);
      else if (!begun) {
        if (code === 0x7b) open(at, (begun = true));
        else if (code > 0x20 && code < 0x80) return false;
      } else if (code === QUOTE) beginText(at);
      else if (code === 0x7b || code === 0x5b) open(at, code === 0x7b);
      else if (code === 0x7d || code === 0x5d) close(chunk, at);
    }
    return true;
  };
  const push = (chunk: string): boolean => {
    if (!scan(chunk)) return false;
    if (nameFrom >= 0) {
      name = (name + chunk.slice(nameFrom)).slice(0, ITEM_MAX);
      nameFrom = 0;
    }
    if (itemFrom >= 0) {
      item += chunk.slice(itemFrom);
      itemFrom = 0;
    }
    return item.length <= ITEM_MAX;
  };
  return { push, complete: () => begun && depth === 0 && !inString };
}
