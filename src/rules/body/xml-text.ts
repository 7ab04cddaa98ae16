/**
 * Text of XML elements as an application gets it: comments, processing instructions and the marks of CDATA
 * sections are gone, entities of the document itself are put in (XML 1.0 sections 2.5 to 2.7, 4.4). Only text
 * that differs from what is written is answered; the rest is judged as raw text anyway.
 */
const ENTITY = /<!ENTITY\s{1,20}([\w.:-]{1,100})\s{1,20}(?:"([^"]{0,4096})"|'([^']{0,4096})')/gi;
const ENTITIES_MAX = 200;
const REFERENCE = /&([\w.:-]{1,100});/g;
const LEVELS = 5;
const JOINED_CHARS = 262_144;

export function looksLikeXml(text: string): boolean {
  return /^[\s\xef\xbb\xbf]{0,200}<[?!a-z_]/i.test(text.slice(0, 400));
}

/** Each element's text that was pieced together; undefined now and then, so that the caller may pause. */
export function* joinedText(text: string): Generator<string | undefined> {
  const entities = readEntities(text);
  const expand = (piece: string): string => (entities === undefined ? piece : expandIn(piece, entities));
  let joined = '';
  let pieced = false;
  let at = 0;
  const add = (piece: string): void => void (joined = (joined + piece).slice(-JOINED_CHARS));
  for (let seen = 1; at < text.length; seen++) {
    const open = text.indexOf('<', at);
    const piece = text.slice(at, open < 0 ? text.length : open);
    const expanded = expand(piece);
    pieced ||= expanded !== piece;
    add(expanded);
    if (open < 0) break;
    const [end, kind] = markup(text, open);
    if (kind === 'tag') {
      if (pieced) yield joined;
      joined = '';
      pieced = false;
    } else {
      pieced = true;
      if (kind === 'cdata') add(text.slice(open + 9, end - 3));
    }
    at = end;
    if (seen % 256 === 0) yield undefined;
  }
  if (pieced) yield joined;
}

type Markup = 'tag' | 'cdata' | 'nothing';

/** Where the markup ends; what is never closed goes to the end of the text. */
function markup(text: string, open: number): [number, Markup] {
  const close = (mark: string, from: number): number => {
    const found = text.indexOf(mark, from);
    return found < 0 ? text.length : found + mark.length;
  };
  if (text.startsWith('<!--', open)) return [close('-->', open + 4), 'nothing'];
  if (text.startsWith('<![CDATA[', open)) {
    const end = close(']]>', open + 9);
    // As if it were closed, so that the text of a section without an end counts whole.
    return [end, 'cdata'];
  }
  if (text.startsWith('<?', open)) return [close('?>', open + 2), 'nothing'];
  return [close('>', open + 1), 'tag'];
}

function readEntities(text: string): ReadonlyMap<string, string> | undefined {
  if (!/<!ENTITY\s/i.test(text)) return undefined;
  const entities = new Map<string, string>();
  for (const [, name = '', double, single] of text.matchAll(ENTITY)) {
    if (entities.size >= ENTITIES_MAX) break;
    if (!entities.has(name)) entities.set(name, double ?? single ?? '');
  }
  return entities;
}

function expandIn(piece: string, entities: ReadonlyMap<string, string>): string {
  let text = piece;
  for (let level = 0; level < LEVELS && text.includes('&') && text.length < JOINED_CHARS; level++) {
    const next = text.replace(REFERENCE, (whole, name: string) => entities.get(name) ?? whole);
    if (next === text) break;
    text = next.slice(0, JOINED_CHARS);
  }
  return text;
}
