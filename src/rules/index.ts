/**
 * The native rules engine: rules are loaded and compiled once, a request is judged head first, then its body.
 */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { atOnce, inSlices } from '../core/pacer.js';
import type { RulesConfig } from './config.js';
import type { RuleCounts, RuleEngine } from './engine.js';
import { createHeadInspector } from './head.js';
import type { RuleBook } from './judge.js';
import { readRuleFolders } from './load.js';
import { openBody } from './body/inspector.js';
import type { Rule, SetKind } from './rule.js';
import { setKind } from './rule.js';
import { createRuleSet } from './sets.js';

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
  return inSlices(buildEngine(config, deps));
}

type EngineDeps = Readonly<{ baseDir: string; counts?: RuleCounts }>;
type Building = Generator<undefined, RuleEngine>;

function* buildEngine(config: RulesConfig, deps: EngineDeps): Building {
  const native = config.native === undefined ? packageRules() : resolve(deps.baseDir, config.native);
  const folders = [native, ...config.custom.map((folder) => resolve(deps.baseDir, folder))];
  return yield* joinRules(yield* readRuleFolders(folders), config, deps.counts);
}

/** An engine over rules at hand: for tests and for judging one rule by itself. */
export function createEngineOf(
  rules: readonly Rule[],
  config: RulesConfig,
  counts?: RuleCounts,
): RuleEngine {
  return atOnce(joinRules(rules, config, counts));
}

/** A set of patterns takes a while to compile: one at a time. */
function* joinRules(rules: readonly Rule[], config: RulesConfig, counts = noRuleCounts()): Building {
  const active = rules.filter((rule) => rule.paranoiaLevel <= config.paranoiaLevel);
  const ofKind = (kind: SetKind): RuleBook['kinds'][SetKind] => {
    const mine = active.filter((rule) => [...rule.targets].some((target) => setKind(target) === kind));
    return { rules: mine, set: createRuleSet(mine, { onOverflow: () => void counts.setOverflows++ }) };
  };
  const text = ofKind('text');
  yield;
  const header = ofKind('header');
  yield;
  const path = ofKind('path');
  yield;
  const book: RuleBook = { config, counts, kinds: { text, header, path, file: ofKind('file') } };
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
