/**
 * What a refused client is told: a status, a request id, and for limits when to come back; never a rule. HTML
 * for navigations, problem+json (RFC 9457) or the short JSON for the rest. Limits speak in Retry-After (RFC
 * 9110 section 10.2.3) and RateLimit fields (draft-ietf-httpapi-ratelimit-headers).
 */
import type { Decision } from '../core/decision.js';
import { rateLimitFields } from './rate-limit-fields.js';

export type RefusalTo = Readonly<{
  requestId: string;
  method: string;
  accept: string;
  secFetchMode: string;
  /** False: no RateLimit fields (`limits.headers: off`). */
  rateLimitFields?: boolean;
}>;

export type Refusal = Readonly<{
  status: number;
  /** Name and value in turn. */
  headers: readonly string[];
  body: string;
}>;

type Words = Readonly<{ title: string; sentence: string }>;

const WORDS: Readonly<Record<number, Words>> = {
  400: { title: 'Bad Request', sentence: 'The request could not be understood.' },
  403: { title: 'Forbidden', sentence: 'This request was refused.' },
  408: { title: 'Request Timeout', sentence: 'The request did not arrive in time.' },
  413: { title: 'Content Too Large', sentence: 'The request is larger than this site accepts.' },
  415: {
    title: 'Unsupported Media Type',
    sentence: 'The request is written in a form this site does not read.',
  },
  421: { title: 'Misdirected Request', sentence: 'There is no such site here.' },
  429: { title: 'Too Many Requests', sentence: 'You have sent too many requests.' },
  501: { title: 'Not Implemented', sentence: 'This site does not support that kind of request.' },
  502: { title: 'Bad Gateway', sentence: 'The site did not answer. Please try again in a moment.' },
  503: { title: 'Service Unavailable', sentence: 'The site is busy. Please try again in a moment.' },
  505: { title: 'HTTP Version Not Supported', sentence: 'This site does not speak that version of HTTP.' },
  504: {
    title: 'Gateway Timeout',
    sentence: 'The site took too long to answer. Please try again in a moment.',
  },
};

/** `dice`: 0 to 1, spreads Retry-After so that refused clients do not all return in one second. */
export function renderRefusal(decision: Decision, to: RefusalTo, dice: () => number = Math.random): Refusal {
  const status = decision.status;
  const words = WORDS[status] ?? { title: 'Refused', sentence: 'This request was refused.' };
  const waitS = status === 429 || status === 503 ? retryAfter(decision, dice()) : 0;
  const again = status === 429 ? ` Please try again in ${inWords(waitS)}.` : '';
  const sentence = `${words.sentence}${again}`;
  const [type, body] = write({ title: words.title, sentence }, status, to);
  const headers = [
    'Content-Type',
    type,
    'Content-Length',
    String(Buffer.byteLength(body)),
    'Cache-Control',
    'no-store',
  ];
  headers.push('X-Request-Id', to.requestId);
  if (waitS > 0) headers.push('Retry-After', String(waitS));
  if (decision.limit !== undefined && status === 429 && to.rateLimitFields !== false)
    headers.push(...rateLimitFields([decision.limit]));
  return { status, headers, body };
}

function write(words: Words, status: number, to: RefusalTo): readonly [string, string] {
  const { requestId } = to;
  if (isNavigation(to)) return ['text/html; charset=utf-8', page(words, status, requestId)];
  const wantsProblem = to.accept.includes('application/problem+json');
  if (status === 403 && !wantsProblem)
    return ['application/json', JSON.stringify({ error: 'Forbidden', requestId })];
  const problem = {
    type: 'about:blank',
    title: words.title,
    status,
    detail: words.sentence,
    requestId,
    error: words.title,
  };
  return ['application/problem+json', JSON.stringify(problem)];
}

function isNavigation(to: RefusalTo): boolean {
  if (to.secFetchMode !== '') return to.secFetchMode === 'navigate';
  return to.accept.includes('text/html');
}

function page(words: Words, status: number, requestId: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${status} ${words.title}</title>
<style>
body{font:1rem/1.5 system-ui,sans-serif;margin:4rem auto;max-width:34rem;padding:0 1rem}
code{color:#555}
</style>
</head><body><h1>${words.title}</h1><p>${words.sentence}</p>
<p>If you think this is a mistake, tell the site's owner this number:
<code>${escaped(requestId)}</code></p></body></html>
`;
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

/** Never earlier than the limit says, later by at most a fifth and one second. */
function retryAfter(decision: Decision, dice: number): number {
  const waitS = Math.max(1, Math.ceil((decision.limit?.retryAfterMs ?? 1000) / 1000));
  return Math.min(Math.ceil(waitS + dice * (waitS * 0.2 + 1)), Math.floor(waitS * 1.2 + 1));
}

function inWords(seconds: number): string {
  if (seconds < 90) return seconds === 1 ? '1 second' : `${seconds} seconds`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 90 ? `${minutes} minutes` : `${Math.ceil(minutes / 60)} hours`;
}
