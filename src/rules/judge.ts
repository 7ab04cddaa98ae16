/**
 * Judges values against the rules. Values are gathered, all their forms run through one set in one pass, and
 * only where that pass hits is each looked at by itself. One judge serves one request: a rule is answered
 * once.
 */
import type { Evidence, Finding, Severity } from '../core/finding.js';
import type { RequestFacts } from '../core/request.js';
import type { RulesConfig } from './config.js';
import type { RuleCounts } from './engine.js';
import type { Rule, SetKind, Target } from './rule.js';
import { setKind } from './rule.js';
import type { RuleSet } from './sets.js';
import { isExcluded } from './exclusions.js';
import { malformed } from './malformed.js';
import type { Encoding, Variant } from './variants.js';
import { isPlain, variantsOf } from './variants.js';

export type RuleBook = Readonly<{
  config: RulesConfig;
  counts: RuleCounts;
  /** The rules of each kind of text and their set. */
  kinds: Readonly<Record<SetKind, Readonly<{ rules: readonly Rule[]; set: RuleSet }>>>;
}>;

export type Value = Readonly<{ target: Target; name: string; text: string; encoding: Encoding }>;

export type Judge = Readonly<{
  /** Takes a value in; text that is empty costs nothing. */
  add(value: Value): void;
  /** Work taken in since the last `flush`: characters of all forms, and something for each. */
  pending(): number;
  /** A body brought so many bytes: ordinary text of that size may cost so much more. */
  grant(bytes: number): void;
  /** True once more was taken in than one request may ask for: it is refused, and the rest is not read. */
  exhausted(): boolean;
  /** What the values taken in since the last call brought to light. */
  flush(): Finding[];
}>;

/** `forms` runs beside `values`: undefined where a value has one form only, the text itself. */
type Pool = { texts: string[]; values: Value[]; forms: (readonly Variant[] | undefined)[] };
type Hit = Readonly<{ rule: Rule; severity: Severity; evidence: Evidence }>;

/** Ids of findings that no rule file brings; exclusions take them too. */
export const BUILT_IN_IDS = ['NUL-BYTE', 'UTF8-OVERLONG', 'FORMS-CUT'] as const;
type BuiltInId = (typeof BUILT_IN_IDS)[number];
const KINDS: readonly SetKind[] = ['text', 'header', 'path', 'file'];
const EVIDENCE_CHARS = 200;
/** What one more text costs besides its characters, in characters. */
const VALUE_COST = 16;
const NO_SUSPECTS: readonly number[] = Object.freeze([]);
const NO_NAMES: readonly string[] = Object.freeze([]);

export function createJudge(book: RuleBook, facts: Pick<RequestFacts, 'site' | 'cleanPath'>): Judge {
  let answered: Set<string> | undefined;
  const isAnswered = (id: string): boolean => answered?.has(id) === true;
  const answer = (id: string): void => void (answered ??= new Set()).add(id);
  const pools: Partial<Record<SetKind, Pool>> = {};
  let extra: Finding[] = [];
  let chars = 0;
  let spent = 0;
  let allowed = book.config.workMax;
  let exhausted = false;
  const charge = (length: number): void => {
    chars += length + VALUE_COST;
    spent += length + VALUE_COST;
    if (spent <= allowed || exhausted) return;
    exhausted = true;
    book.counts.workCut++;
    extra.push(malformed('WORK-MAX', 413, 'judging the body takes more work than one request may ask for'));
  };

  const violation = (id: BuiltInId, severity: Severity, value: Value, message: string): void => {
    if (isAnswered(id) || isExcluded(book.config.exclusions, id, { facts, target: spell(value) })) return;
    answer(id);
    const evidence: Evidence = {
      target: spell(value),
      text: value.text.slice(0, EVIDENCE_CHARS),
      transformations: [],
    };
    const points = book.config.severityPoints[severity];
    extra.push({ id, kind: 'match', points, message, severity, class: 'encoding', evidence });
  };

  const add = (value: Value): void => {
    if (value.text === '' || exhausted) return;
    const kind = setKind(value.target);
    const pool = pools[kind] ?? (pools[kind] = { texts: [], values: [], forms: [] });
    pool.values.push(value);
    if (value.target === 'file' || isPlain(value.text)) {
      charge(value.text.length);
      pool.texts.push(value.text);
      pool.forms.push(undefined);
      return;
    }
    const found = variantsOf(value.text, value.encoding, book.config);
    if (found.nul) violation('NUL-BYTE', 3, value, 'a NUL character stands in a text value');
    if (found.overlong)
      violation('UTF8-OVERLONG', 4, value, 'a character is written in more UTF-8 bytes than it needs');
    if (found.cut) {
      // The forms left out were judged by nobody: such a value must not pass unread.
      book.counts.formsCut++;
      violation('FORMS-CUT', 4, value, 'a value has more layers of encoding than are judged');
    }
    for (const { text } of found.list) {
      charge(text.length);
      pool.texts.push(text);
    }
    pool.forms.push(found.list);
  };

  const flush = (): Finding[] => {
    const findings = extra;
    extra = [];
    chars = 0;
    for (const kind of KINDS) {
      const pool = pools[kind];
      if (pool === undefined || pool.texts.length === 0) continue;
      const { rules, set } = book.kinds[kind];
      const suspects =
        set.size === 0
          ? NO_SUSPECTS
          : set.match(pool.texts.length === 1 ? (pool.texts[0] ?? '') : pool.texts.join('\n'));
      pools[kind] = undefined;
      if (suspects.length === 0) continue;
      for (const index of new Set(suspects)) {
        const rule = rules[index];
        if (rule === undefined || isAnswered(rule.id)) continue;
        const hit = strongest(rule, pool, (target) =>
          isExcluded(book.config.exclusions, rule.id, { facts, target }),
        );
        if (hit === undefined) continue;
        answer(rule.id);
        findings.push(toFinding(hit, book.config));
      }
    }
    return findings;
  };
  const grant = (bytes: number): void => void (allowed += bytes * book.config.workPerByte);
  return { add, flush, grant, pending: () => chars, exhausted: () => exhausted };
}

/** `query:q`, `json:user.name`, `path`, `body`. */
function spell({ target, name }: Pick<Value, 'target' | 'name'>): string {
  if (target === 'raw') return name === '' ? 'body' : name;
  return name === '' ? target : `${target}:${name.slice(0, 100)}`;
}

function strongest(rule: Rule, pool: Pool, excluded: (target: string) => boolean): Hit | undefined {
  let best: Hit | undefined;
  for (const [index, entry] of pool.values.entries()) {
    if (!rule.targets.has(entry.target)) continue;
    if (entry.target === 'header' && rule.headers !== undefined && !rule.headers.has(entry.name)) continue;
    for (const variant of pool.forms[index] ?? [{ text: entry.text, names: NO_NAMES, depth: 0 }]) {
      const evidence = matchVariant(rule, entry, variant);
      if (evidence === undefined || excluded(evidence.target)) continue;
      const severity = Math.min(4, rule.severity + (variant.depth >= 2 ? 1 : 0)) as Severity;
      if (best === undefined || severity > best.severity) best = { rule, severity, evidence };
      if (severity === 4 || variant.depth >= 2) return best;
    }
  }
  return best;
}

/** These read no shell and no file system: what quotes would do there only makes false alarms. */
const NO_SHELL: ReadonlySet<string> = new Set(['sqli', 'xss', 'nosql', 'nosqli']);

function matchVariant(rule: Rule, entry: Value, { text, names }: Variant): Evidence | undefined {
  if (names.length < rule.minTransformations) return undefined;
  const allowed = rule.transformations;
  if (allowed !== 'default' && !names.every((name) => name === 'url' || allowed.has(name))) return undefined;
  const last = names[names.length - 1];
  if ((last === 'shell' || last === 'path') && NO_SHELL.has(rule.class)) return undefined;
  if (rule.unless?.test(text) === true) return undefined;
  const left = rule.without === undefined ? text : rule.without.replace(text, ' ');
  for (const pattern of rule.compiled) {
    const match = pattern.exec(left);
    if (match === null) continue;
    const from = Math.max(0, match.index - 40);
    return { target: spell(entry), text: left.slice(from, from + EVIDENCE_CHARS), transformations: names };
  }
  return undefined;
}

function toFinding({ rule, severity, evidence }: Hit, config: RulesConfig): Finding {
  const points = rule.observe ? 0 : config.severityPoints[severity];
  const finding: Finding = {
    id: rule.id,
    kind: 'match',
    points,
    message: rule.title,
    severity,
    class: rule.class,
    evidence,
  };
  return rule.observe ? { ...finding, observed: true } : finding;
}
