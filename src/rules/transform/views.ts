/**
 * Views: what a shell, an SQL parser or a file system would make of the text. They stand beside the decoded
 * form and are not decoded further. Each is linear: comments are found with indexOf, all patterns have
 * bounded runs.
 */
import type { Transformation } from './transformation.js';

/** A Markdown fence keeps its line: the code behind it must not become the start of the text. */
const CONTROL = /(?:^|\n) {0,3}```[\w+-]{0,20}\r?\n|[\x00-\x1f\x7f\u00ad\u200b-\u200f\u2060\ufeff]/g;
const SPACE_RUN = /[\s\x00]+/g;
const LINE_COMMENT = /--|#/;
const CONCAT = /(['"])[ \t\n]{0,8}(?:\|\||\+|\.|)[ \t\n]{0,8}\1/g;
const PATH_ODD = /\\|(?<!:)\/\/|\/\.\/|0x2f|0x5c|\.;/i;
/** A Markdown code fence on a line of its own stays: without it the first line of the code opens the text. */
const FENCE_OR_QUOTE = /(?:^|\n)[ ]{0,3}```[\w+-]{0,20}(?=\r?\n|$)|['"\\^`]/g;
const SHELL_ODD = /['"\\^`$]|[{][^,{}\s]{1,60},/;

/** NUL and other invisible characters are dropped, as in `java\tscript:`. */
export const invisible: Transformation = {
  name: 'invisible',
  apply: (text) => text.replace(CONTROL, (found) => (found.length > 1 ? found : '')),
};

export const commentsToSpace: Transformation = {
  name: 'comments-space',
  apply: (text) => dropComments(text, ' ').replace(SPACE_RUN, ' '),
};

export const commentsToNothing: Transformation = {
  name: 'comments',
  apply: (text) => dropComments(text, ''),
};

/** `'a'||'b'`, `'a'+'b'` and `'a' 'b'` become one word. */
export const concat: Transformation = {
  name: 'concat',
  apply: (text) => text.replace(CONCAT, ''),
};

/**
 * Quotes, carets, backslashes and empty variables inside words; `$IFS` and `{a,b}` as the space they stand
 * for.
 */
export const shell: Transformation = {
  name: 'shell',
  apply: (text) =>
    SHELL_ODD.test(text)
      ? text
          .replace(/\$(?:\{IFS[^}]{0,40}\}|IFS)(?:\$\d)?/g, ' ')
          .replace(
            /\{([^\s{},]{1,60}),([^\s{}]{1,200})\}/g,
            (_whole, a: string, b: string) => `${a} ${b.replaceAll(',', ' ')}`,
          )
          .replace(/\$(?:[@*!#_0-9]|\{?[a-zA-Z_]\w{0,40}\}?)/g, '')
          .replace(FENCE_OR_QUOTE, (found) => (found.length > 1 ? found : ''))
      : text,
};

/** One kind of slash, no doubled slashes, no `/./`, no path parameters after dots. */
export const path: Transformation = {
  name: 'path',
  apply: (text) =>
    PATH_ODD.test(text)
      ? text
          .replace(/\\|0x2f|0x5c/gi, '/')
          .replace(/(\.{1,2});[^/]{0,40}\//g, '$1/')
          .replace(/(?<!:)\/{2,}/g, '/')
          .replace(/\/(?:\.\/)+/g, '/')
      : text,
};

function dropComments(text: string, instead: string): string {
  let out = '';
  let from = 0;
  for (;;) {
    const open = text.indexOf('/*', from);
    const close = open < 0 ? -1 : text.indexOf('*/', open + 2);
    if (close < 0) break;
    // MySQL runs what stands in `/*! … */`, so it stays in the text.
    const kept =
      text[open + 2] === '!' ? ` ${text.slice(open + 3, close).replace(/^\d{5,6}/, '')} ` : instead;
    out += text.slice(from, open) + kept;
    from = close + 2;
  }
  out += text.slice(from);
  return out.includes('\n') ? dropLineComments(out, instead === '' ? '\n' : ' ') : out;
}

/** From `#` or `--` to the end of the line, however long; line by line, so that the cost is linear. */
function dropLineComments(text: string, instead: string): string {
  if (!text.includes('#') && !text.includes('--')) return text;
  let out = '';
  let from = 0;
  for (;;) {
    const end = text.indexOf('\n', from);
    if (end < 0) return out + text.slice(from);
    const line = text.slice(from, end);
    const at = line.search(LINE_COMMENT);
    out += at < 0 ? `${line}\n` : line.slice(0, at) + instead;
    from = end + 1;
  }
}
