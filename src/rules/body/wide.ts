/**
 * Text whose characters take two or four bytes, or stand in EBCDIC. JSON readers find UTF-16 and UTF-32 out
 * by the first four bytes (RFC 4627 section 3), XML readers by these or by the declaration (XML 1.0
 * appendix F), so the gate does the same, whatever the header says.
 */
export type WideEncoding = Readonly<{ unit: 2 | 4; big: boolean; mark: boolean }>;

const MARKS: readonly (readonly [readonly number[], WideEncoding])[] = [
  [[0, 0, 0xfe, 0xff], { unit: 4, big: true, mark: true }],
  [[0xff, 0xfe, 0, 0], { unit: 4, big: false, mark: true }],
  [[0xfe, 0xff], { unit: 2, big: true, mark: true }],
  [[0xff, 0xfe], { unit: 2, big: false, mark: true }],
];

/** Undefined where the text begins as one of one byte a character. */
export function wideEncoding(first: Buffer): WideEncoding | undefined {
  for (const [mark, encoding] of MARKS)
    if (first.length >= mark.length && mark.every((byte, at) => first[at] === byte)) return encoding;
  if (first.length < 2) return undefined;
  const [a = 1, b = 1, c = 1, d = 1] = first;
  if (a === 0) return { unit: b === 0 ? 4 : 2, big: true, mark: false };
  if (b === 0) return { unit: c === 0 && d === 0 ? 4 : 2, big: false, mark: false };
  return undefined;
}

/** True where most of the text has the zeroes that the encoding gives to ASCII. */
export function isMostlyWide(first: Buffer, { unit, big }: WideEncoding): boolean {
  const low = big ? unit - 1 : 0;
  let ascii = 0;
  let all = 0;
  for (let at = 0; at + unit <= first.length; at += unit, all++) {
    const zeroes = first.subarray(at, at + unit).every((byte, place) => (byte === 0) === (place !== low));
    if (zeroes) ascii++;
  }
  return ascii * 10 >= all * 8;
}

/** The text as UTF-8, one character a byte; what is no character stays out. */
export function narrow(text: string, { unit, big }: WideEncoding): string {
  const bytes = Buffer.from(text, 'latin1');
  const whole = bytes.subarray(0, bytes.length - (bytes.length % unit));
  const utf16 = unit === 2 ? (big ? Buffer.from(whole).swap16() : whole) : toUtf16(whole, big);
  return Buffer.from(utf16.toString('utf16le').replace(/^\ufeff/, ''), 'utf8').toString('latin1');
}

function toUtf16(bytes: Buffer, big: boolean): Buffer {
  const out = Buffer.alloc(bytes.length);
  let to = 0;
  for (let at = 0; at < bytes.length; at += 4) {
    const code = big ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at);
    if (code > 0x10ffff) continue;
    if (code < 0x10000) to = out.writeUInt16LE(code, to);
    else {
      to = out.writeUInt16LE(0xd800 + ((code - 0x10000) >> 10), to);
      to = out.writeUInt16LE(0xdc00 + ((code - 0x10000) & 0x3ff), to);
    }
  }
  return out.subarray(0, to);
}

const EBCDIC_XML = Buffer.from([0x4c, 0x6f, 0xa7, 0x94, 0x93]);
const DECLARED = /^[\s\xef\xbb\xbf]{0,100}<\?xml[^>]{0,200}?\sencoding\s{0,10}=\s{0,10}["']([^"']{0,60})["']/i;
const ASCII_LIKE =
  /^(?:utf-?(?:8|16(?:le|be)?|32(?:le|be)?)|ucs-[24]|us-ascii|ascii|iso-8859-\d{1,2}|latin-?1|windows-125\d|cp125\d|gbk|gb2312|gb18030|big5|shift_jis|euc-(?:jp|kr)|koi8-[ru])$/i;

/** The name of an encoding that an XML reader takes and the gate does not: EBCDIC, UTF-7 and the like. */
export function foreignEncoding(first: Buffer): string | undefined {
  if (first.subarray(0, EBCDIC_XML.length).equals(EBCDIC_XML)) return 'EBCDIC';
  const wide = wideEncoding(first);
  const text = first.subarray(0, 1024).toString('latin1');
  const declared = DECLARED.exec(wide === undefined ? text : narrow(text, wide))?.[1];
  return declared === undefined || ASCII_LIKE.test(declared) ? undefined : declared;
}
