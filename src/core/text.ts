/** Cuts that never leave half a surrogate pair behind. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max) + '…';
}

/** Control characters, line separators and halves of surrogate pairs; what may end or colour a line. */
const UNCLEAN = /[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]/;
const UNCLEAN_ALL =
  /[\x00-\x1f\x7f-\x9f\u2028\u2029]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** At most `max` characters, each harmless character as it is, every other one as `·`. */
export function cleanText(text: string, max: number): string {
  const short = text.length > max ? text.slice(0, max) : text;
  return UNCLEAN.test(short) ? short.replace(UNCLEAN_ALL, '·') : short;
}
