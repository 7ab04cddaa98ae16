/**
 * Cuts the objects of one top-level array out of a streamed JSON document, so that a big document is never parsed
 * in one piece. It follows strings and nesting only; each item is left to JSON.parse.
 */

const ITEM_MAX = 256 * 1024;

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
  let name = '';
  let inArray = false;
  let item = '';

  const open = (code: number, inItem: boolean): void => {
    depth++;
    if (code === 0x5b && depth === 2 && !inItem) inArray = name === key;
  };
  const close = (): void => {
    depth--;
    if (depth === 1) inArray = false;
  };

  const push = (chunk: string): boolean => {
    // Start of the part of this chunk that belongs to the current item or top-level name; -1 outside of them.
    let itemFrom = item === '' ? -1 : 0;
    let nameFrom = inString && depth === 1 ? 0 : -1;
    for (let at = 0; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at);
      if (inString) {
        if (escaped) escaped = false;
        else if (code === 0x5c) escaped = true;
        else if (code === 0x22) {
          inString = false;
          if (nameFrom >= 0) name += chunk.slice(nameFrom, at);
          nameFrom = -1;
        }
        continue;
      }
      if (code === 0x22) {
        inString = true;
        if (depth === 1) {
          name = '';
          nameFrom = at + 1;
        }
      } else if (code === 0x7b || code === 0x5b) {
        if (!begun && code !== 0x7b) return false;
        begun = true;
        if (code === 0x7b && depth === 2 && inArray) itemFrom = at;
        open(code, itemFrom >= 0);
      } else if (code === 0x7d || code === 0x5d) {
        close();
        if (itemFrom >= 0 && depth === 2) {
          take(item + chunk.slice(itemFrom, at + 1));
          item = '';
          itemFrom = -1;
        }
      } else if (!begun && code > 0x20 && code < 0x80) return false;
    }
    if (nameFrom >= 0) name = (name + chunk.slice(nameFrom)).slice(-ITEM_MAX);
    if (itemFrom >= 0) item += chunk.slice(itemFrom);
    return item.length <= ITEM_MAX;
  };
  return { push, complete: () => begun && depth === 0 };
}
