/**
 * The native rules engine: rules are loaded and compiled once, a request is judged head first, then its body.
 */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nearestName } from '../core/nearest-name.js';
import { atOnce, inSlices } from '../core/pacer.js';
import type { RulesConfig } from './config.js';
import type { RuleCounts, RuleEngine } from './engine.js';
import { Fault } from '../core/errors.js';
import { createHeadInspector } from './head.js';
import { BUILT_IN_IDS, type RuleBook } from './judge.js';
import { readRuleFolders, type RuleFiles } from './load.js';
import { openBody } from './body/inspector.js';
import type { Rule, SetKind } from './rule.js';
import { setKind } from './rule.js';
import { buildRuleSet } from './sets.js';

export { rulesSection } from './config.js';
export type { RulesConfig } from './config.js';
export type { RuleCounts } from './engine.js';
export { compileRule, loadRules } from './load.js';
export type { Rule } from './rule.js';

/**
 * Loads the rules that the section names and compiles them.
 * @throws Fault RULES_INVALID with every problem of every rule file.
 */
export function createRuleEngine(config: RulesConfig, deps: EngineDeps): RuleEngine {
  return atOnce(buildEngine(config, deps));
}

/** The same in slices, beside requests that are being served: a reload must not hold them up. */
export function loadRuleEngine(config: RulesConfig, deps: EngineDeps): Promise<RuleEngine> {
  return inSlices(buildEngine(config, deps), { gently: deps.cache?.kinds.text !== undefined });
}

/** What was compiled for one config, for the next to go on with where the rules are the same. */
export type RuleCache = {
  readonly files: RuleFiles;
  kinds: Partial<RuleBook['kinds']>;
};

export function createRuleCache(): RuleCache {
  return { files: new Map(), kinds: {} };
}

type EngineDeps = Readonly<{ baseDir: string; counts?: RuleCounts; cache?: RuleCache }>;
type Building = Generator<undefined, RuleEngine>;

function* buildEngine(config: RulesConfig, deps: EngineDeps): Building {
  const native = config.native === undefined ? packageRules() : resolve(deps.baseDir, config.native);
  const folders = [native, ...config.custom.map((folder) => resolve(deps.baseDir, folder))];
  const rules = yield* readRuleFolders(folders, deps.cache?.files);
  checkExclusions(config, rules);
  return yield* joinRules(rules, config, deps);
}

/** An exclusion that names no rule would be thought to work. */
function checkExclusions({ exclusions }: RulesConfig, rules: readonly Rule[]): void {
  const known = [...rules.map(({ id }) => id), ...BUILT_IN_IDS];
  const problems = exclusions.flatMap(({ rule }, index) => {
    const isKnown = rule.endsWith('*')
      ? known.some((id) => id.startsWith(rule.slice(0, -1)))
      : known.includes(rule);
    if (isKnown) return [];
    const nearest = nearestName(rule.replace(/\*$/, ''), known);
    const hint = nearest === undefined ? `an id such as ${known[0]} fits` : `did you mean "${nearest}"?`;
    return [`rules.exclusions[${index}].rule: no rule is named "${rule}"; ${hint}`];
  });
  if (problems.length === 0) return;
  throw new Fault('RULES_INVALID', { count: problems.length, problems: problems.join('\n') });
}

/** An engine over rules at hand: for tests and for judging one rule by itself. */
export function createEngineOf(
  rules: readonly Rule[],
  config: RulesConfig,
  counts?: RuleCounts,
): RuleEngine {
  return atOnce(joinRules(rules, config, counts === undefined ? {} : { counts }));
}

/** A set of patterns takes a while to compile: one at a time. */
function* joinRules(
  rules: readonly Rule[],
  config: RulesConfig,
  { counts = noRuleCounts(), cache }: Pick<EngineDeps, 'counts' | 'cache'>,
): Building {
  const active = rules.filter((rule) => rule.paranoiaLevel <= config.paranoiaLevel);
  const ofKind = function* (kind: SetKind): Generator<undefined, RuleBook['kinds'][SetKind]> {
    const mine = active.filter((rule) => [...rule.targets].some((target) => setKind(target) === kind));
    const before = cache?.kinds[kind];
    if (before?.rules.length === mine.length && mine.every((rule, at) => rule === before.rules[at]))
      return before;
    const onOverflow = (): void => void counts.setOverflows++;
    return { rules: mine, set: yield* buildRuleSet(mine, { onOverflow }) };
  };
  const kinds = {
    text: yield* ofKind('text'),
    header: yield* ofKind('header'),
    path: yield* ofKind('path'),
    file: yield* ofKind('file'),
  };
  if (cache !== undefined) cache.kinds = kinds;
  const book: RuleBook = { config, counts, kinds };
  return {
    inspectHead: createHeadInspector(book),
    openBody: (facts, watch) => openBody(book, facts, watch),
    ruleCount: active.length,
  };
}

/** A record that begins at nothing. */
export function noRuleCounts(): RuleCounts {
  return { setOverflows: 0, formsCut: 0, workCut: 0 };
}

/** `rules/native` of the package that this file belongs to, from source and from `dist` alike. */
function packageRules(): string {
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    if (existsSync(join(at, 'package.json'))) return join(at, 'rules', 'native');
    if (dirname(at) === at) return join(at, 'rules', 'native');
  }
}
