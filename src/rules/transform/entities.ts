/**
 * HTML character references, with or without the semicolon, as browsers read them (HTML Living Standard
 * 13.2.5.72).
 */
import type { Transformation } from './transformation.js';

const REFERENCE = /&(?:#x0{0,8}([0-9a-f]{1,6})|#0{0,8}(\d{1,7})|([a-z]{2,10}));?/gi;

const NAMED: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  colon: ':',
  tab: '\t',
  newline: '\n',
  lpar: '(',
  rpar: ')',
  sol: '/',
  bsol: '\\',
  lbrace: '{',
  lcub: '{',
  rbrace: '}',
  rcub: '}',
  lsqb: '[',
  lbrack: '[',
  rsqb: ']',
  rbrack: ']',
  semi: ';',
  comma: ',',
  period: '.',
  excl: '!',
  num: '#',
  dollar: '$',
  percnt: '%',
  ast: '*',
  plus: '+',
  equals: '=',
  quest: '?',
  commat: '@',
  lowbar: '_',
  grave: '`',
  hat: '^',
  verbar: '|',
  vert: '|',
};
const BARE = new Set(['lt', 'gt', 'amp', 'quot', 'nbsp']);

export const entities: Transformation = {
  name: 'entities',
  apply: (text) => (text.includes('&') ? text.replace(REFERENCE, decode) : text),
};

function decode(
  whole: string,
  hex: string | undefined,
  decimal: string | undefined,
  name: string | undefined,
): string {
  if (name !== undefined) {
    const lower = name.toLowerCase();
    return whole.endsWith(';') || BARE.has(lower) ? (NAMED[lower] ?? whole) : whole;
  }
  const code = hex === undefined ? parseInt(decimal ?? '', 10) : parseInt(hex, 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
}
