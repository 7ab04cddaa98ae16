/** Recorded requests as facts, and how the stages that look at content judge them: head, body, decision. */
import { decisionSection } from '../../src/decision/config.js';
import { decide } from '../../src/decision/decide.js';
import { headersSection } from '../../src/headers/config.js';
import { createHeaderScoring } from '../../src/headers/score.js';
import type { Finding } from '../../src/core/finding.js';
import type { RequestFacts } from '../../src/core/request.js';
import type { RuleEngine } from '../../src/rules/engine.js';
import { createRuleEngine, rulesSection, type Rule } from '../../src/rules/index.js';

export type RecordedRequest = Readonly<{
  method: string;
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
}>;

export type Verdict = Readonly<{ refused: boolean; score: number; findings: readonly Finding[] }>;

const decisionConfig = decisionSection.parse({});
const PIECE_BYTES = 16_384;
const ADDRESS = '192.0.2.1';
const CLIENT = { ip: ADDRESS, key: ADDRESS, wideKey: ADDRESS, peer: ADDRESS, viaProxy: false };

/** Native rules and header checks with their default settings. */
export function createContentJudge(): (request: RecordedRequest) => Promise<Verdict> {
  const rules = createRuleEngine(rulesSection.parse({}), { baseDir: process.cwd() });
  const scoring = createHeaderScoring(headersSection.parse({}), {});
  return async (request) => {
    const facts = toFacts(request);
    const head = [...scoring(facts), ...rules.inspectHead(facts)];
    return verdictOf([...head, ...(await judgeBody(rules, facts, request.body ?? ''))]);
  };
}

async function judgeBody(rules: RuleEngine, facts: RequestFacts, text: string): Promise<readonly Finding[]> {
  if (!facts.hasBody) return [];
  const bytes = Buffer.from(text, 'utf8');
  const body = rules.openBody(facts);
  const found: Finding[] = [];
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    found.push(...(await body.write(bytes.subarray(at, at + PIECE_BYTES))));
  }
  found.push(...(await body.end()));
  return found;
}

function verdictOf(findings: readonly Finding[]): Verdict {
  const counted = findings.filter(({ observed }) => observed !== true);
  const score = Math.min(
    100,
    counted.reduce((sum, { points }) => sum + points, 0),
  );
  const { action } = decide(counted, score, { config: decisionConfig, observe: false });
  return { refused: action === 'block', score, findings: counted };
}

/** Whether an example of a rule is matched at the place it names, else at the rule's first target. */
export function judgeExample(
  engine: RuleEngine,
  rule: Rule,
  { target, value }: Rule['examples']['match'][number],
): boolean | Promise<boolean> {
  const place = target ?? [...rule.targets][0] ?? 'query';
  const hits = (findings: readonly Finding[]): boolean => findings.some(({ id }) => id === rule.id);
  const head = (url: string, headers: Record<string, string>): boolean =>
    hits(engine.inspectHead(toFacts({ method: 'GET', url, headers })));
  const part = (disposition: string, text: string): Promise<boolean> => {
    const body = `--xYz\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${text}\r\n--xYz--\r\n`;
    const type = { 'Content-Type': 'multipart/form-data; boundary=xYz' };
    return judgeBody(engine, toFacts({ method: 'POST', url: '/', headers: type, body }), body).then(hits);
  };
  if (place === 'segment') return head(`/users/${encodeURIComponent(value)}`, {});
  if (place === 'path') return head(value, {});
  if (place === 'header') return head('/', { [[...(rule.headers ?? ['referer'])][0] ?? 'referer']: value });
  if (place === 'file') return part('name="f"; filename="a.bin"', value);
  if (place === 'filename') return part(`name="f"; filename="${value}"`, 'x');
  if (place === 'argname') return head(`/?${encodeURIComponent(value)}=1`, {});
  return head(`/?q=${encodeURIComponent(value)}`, {});
}

/** The bytes of a text, one character each, as the parser of Node hands them over. */
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

function toFacts({ method, url, headers, body = '' }: RecordedRequest): RequestFacts {
  const mark = url.indexOf('?');
  const path = mark < 0 ? url : url.slice(0, mark);
  const pairs = Object.entries(headers).map(([name, value]) => [name, latin1(value)] as const);
  const target = latin1(url);
  return {
    requestId: 'recorded',
    receivedAtMs: 0,
    site: 'recorded',
    unknownHost: false,
    method,
    target,
    path,
    query: mark < 0 ? '' : latin1(url.slice(mark + 1)),
    cleanPath: path,
    httpVersion: '1.1',
    scheme: 'https',
    host: 'shop.example.com',
    rawHeaders: pairs.flat(),
    headers: new Map(pairs.map(([name, value]) => [name.toLowerCase(), value])),
    client: CLIENT,
    hasBody: body !== '',
    contentLength: Buffer.byteLength(body, 'utf8'),
  };
}

/** One line for a person: what was found, where, and in which text. */
export function explain({ score, findings }: Verdict): string {
  const parts = findings.map(({ id, severity, evidence, message }) => {
    const text = JSON.stringify(evidence?.text.slice(0, 120));
    const seen = evidence === undefined ? message : `${evidence.target}: ${text}`;
    return `${id}${severity === undefined ? '' : `/${severity}`} ${seen}`;
  });
  return `score ${score}: ${parts.join(' | ') || 'nothing found'}`;
}
