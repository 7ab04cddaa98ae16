/** Hands an origin's 103 on (RFC 8297). Hints that Node would refuse to write are dropped. */
import type { ServerResponse } from 'node:http';

/** One link, as Node takes it. */
const LINK = /^<[^>\r\n]*>(?:\s*;\s*[^;"\s]+(?:=(")?[^;"\s]*\1)?)*$/;
/** Between links. */
const BETWEEN = /,(?=\s*<)/;
const LINKS_MAX = 64;
const VALUE_CHARS_MAX = 2048;

export function earlyHints(response: ServerResponse, raw: readonly Buffer[]): void {
  const link = linksOf(raw);
  if (link.length === 0) return;
  try {
    response.writeEarlyHints({ link });
  } catch {
    // Only hints: the answer itself follows.
  }
}

/** The links of a raw head (name and value in turn) that can be handed on. */
export function linksOf(raw: readonly Buffer[]): string[] {
  const links: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]!.toString('latin1').toLowerCase() !== 'link') continue;
    const value = raw[index + 1]!;
    if (value.length > VALUE_CHARS_MAX) continue;
    links.push(...value.toString('latin1').split(BETWEEN).map((text) => text.trim()));
  }
  return links.filter((text) => LINK.test(text)).slice(0, LINKS_MAX);
}
