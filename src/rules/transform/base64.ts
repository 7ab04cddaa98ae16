/**
 * Base64 of a whole value (RFC 4648, both alphabets), taken only where it decodes to mostly printable text.
 */
const ALPHABET = /^[A-Za-z0-9+/_ \r\n-]{12,}={0,2}\s{0,4}$/;
const LINES = /[\r\n]+/g;
const PROBE_CHARS = 32;

/** The decoded bytes as Latin-1; undefined where the value is not plausibly base64. */
export function decodeBase64(text: string): string | undefined {
  if (text.length < 16 || !ALPHABET.test(text)) return undefined;
  // Lines of 76 characters, as MIME writes them; a space was a plus before the form was decoded.
  const one = text.includes('\n') ? text.replace(LINES, '').trimEnd() : text;
  const joined = one.includes(' ') ? one.replaceAll(' ', '+') : one;
  if (!isPrintable(Buffer.from(joined.slice(0, PROBE_CHARS), 'base64'))) return undefined;
  const bytes = Buffer.from(joined, 'base64');
  return isPrintable(bytes) ? bytes.toString('latin1') : undefined;
}

function isPrintable(bytes: Buffer): boolean {
  let odd = 0;
  for (const byte of bytes)
    if (byte > 0x7e || (byte < 0x20 && byte !== 9 && byte !== 10 && byte !== 13 && byte !== 0)) odd++;
  return odd * 10 <= bytes.length;
}
