/**
 * The host of each URL as a resolver takes it: compatibility forms folded (NFKC, as IDNA does), numbers read
 * as `inet_aton` reads them (octal, hexadecimal, fewer parts), IPv4 inside IPv6 taken out. A view.
 */
import type { Transformation } from './transformation.js';

const URL_HOST = /(\b[a-z][a-z0-9+.-]{1,15}:[\\/]{1,4}|^[\\/]{2})((?:[^\s\\/?#"'<>@]{0,200}@)?)([^\s\\/?#"'<>@]{1,255})/gi;
const MARK = /:[\\/]|^[\\/]{2}/;
const DOTS = /[\u3002\uff0e\uff61]/g;
const NUMERIC = /^(?:0x[0-9a-f]{0,16}|\d{1,16})(?:\.(?:0x[0-9a-f]{0,16}|\d{1,16})){0,3}\.?$/i;
const WILDCARD = /^(?:.{0,80}[.-])?((?:\d{1,3}-){3}\d{1,3}|[0-9a-f]{8})\.(?:nip|xip|sslip)\.io$/i;

export const hosts: Transformation = {
  name: 'hosts',
  apply: (text) => (MARK.test(text) ? text.replace(URL_HOST, resolve) : text),
};

const resolve = (_whole: string, scheme: string, _user: string, host: string): string =>
  scheme + canonical(host);

function canonical(given: string): string {
  const folded = given.normalize('NFKC').replace(DOTS, '.').toLowerCase();
  const bracket = /^\[([0-9a-f:.]{2,45})(?:%[\w.]{1,20})?\]/.exec(folded);
  if (bracket !== null) return ipv6(bracket[1] ?? '') + folded.slice(bracket[0].length);
  const colon = folded.lastIndexOf(':');
  const name = colon < 0 ? folded : folded.slice(0, colon);
  const port = colon < 0 ? '' : folded.slice(colon);
  return (ipv4(name) ?? wildcard(name) ?? name.replace(/\.$/, '')) + port;
}

/** As `inet_aton`: one to four numbers, the last fills what is left. */
function ipv4(name: string): string | undefined {
  if (!NUMERIC.test(name)) return undefined;
  const parts = name.replace(/\.$/, '').split('.').map(toNumber);
  let value = parts.pop() ?? NaN;
  // Lenient readers let the last number overflow.
  value %= 256 ** (4 - parts.length);
  for (const [at, part] of parts.entries()) value += (part % 256) * 256 ** (3 - at);
  return Number.isNaN(value) ? undefined : dotted(value);
}

function toNumber(part: string): number {
  if (part.startsWith('0x')) return part.length === 2 ? 0 : parseInt(part, 16);
  return /^0[0-7]+$/.test(part) ? parseInt(part, 8) : Number(part);
}

function dotted(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}

/** Names of public services that answer with the address they spell. */
function wildcard(name: string): string | undefined {
  const spelled = WILDCARD.exec(name)?.[1];
  if (spelled === undefined) return undefined;
  return spelled.includes('-') ? spelled.replaceAll('-', '.') : dotted(parseInt(spelled, 16));
}

function ipv6(text: string): string {
  const tail = /:(\d{1,3}(?:\.\d{1,3}){3})$/.exec(text);
  const inner = tail === null ? undefined : ipv4(tail[1] ?? '');
  const words = text.slice(0, tail === null ? undefined : tail.index + 1);
  const [head = '', rest] = words.split('::');
  const before = head.split(':').filter((word) => word !== '');
  const after = (rest ?? '').split(':').filter((word) => word !== '');
  const size = inner === undefined ? 8 : 6;
  const missing = size - before.length - after.length;
  if (missing < 0 || (missing > 0 && rest === undefined)) return `[${text}]`;
  const all = [...before, ...Array<string>(missing).fill('0'), ...after].map((word) => parseInt(word, 16));
  const prefix = all.slice(0, 6);
  const mapped = prefix.slice(0, 5).every((word) => word === 0) && (prefix[5] === 0xffff || prefix[5] === 0);
  const nat64 = prefix[0] === 0x64 && prefix[1] === 0xff9b;
  const last = inner ?? dotted((all[6] ?? 0) * 65_536 + (all[7] ?? 0));
  if (last === '0.0.0.0') return all.every((word) => word === 0) ? '0.0.0.0' : `[${text}]`;
  if (last === '0.0.0.1' && mapped) return '127.0.0.1';
  if (mapped || nat64) return last;
  return `[${all.map((word) => word.toString(16)).join(':')}]`;
}
