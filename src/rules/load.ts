/**
 * Reads rule files (YAML, one rule a file) and compiles them; every problem of a folder is reported at once.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import RE2 from 're2';
import { parse } from 'yaml';
import { z } from 'zod';
import { Fault } from '../core/errors.js';
import type { Severity } from '../core/finding.js';
import { atOnce } from '../core/pacer.js';
import type { Rule, RuleExample } from './rule.js';
import { DEFAULT_TARGETS, TARGETS } from './rule.js';
import { TRANSFORMATION_NAMES } from './transform/index.js';

const example = z.union([z.string(), z.strictObject({ target: z.enum(TARGETS), value: z.string() })]);
const names = z.array(z.enum([...TRANSFORMATION_NAMES] as [string, ...string[]]));

const ruleFile = z
  .strictObject({
    id: z.string().regex(/^[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+$/, 'an id such as SQLI-001 fits'),
    title: z.string().min(1),
    class: z.string().regex(/^[a-z][a-z0-9-]*$/),
    severity: z.union([z.literal(1), z.literal(2), z.literal(3), z.literal(4)]),
    paranoiaLevel: z.number().int().min(1).max(4).default(1),
    mode: z.enum(['enforce', 'observe']).default('enforce'),
    targets: z
      .array(z.enum(TARGETS))
      .min(1)
      .default([...DEFAULT_TARGETS]),
    headers: z.array(z.string().min(1)).min(1).optional(),
    transformations: z.union([z.literal('default'), z.literal('none'), names]).default('default'),
    pattern: z.string().min(1).optional(),
    patterns: z.array(z.string().min(1)).min(1).optional(),
    unless: z.string().min(1).optional(),
    without: z.string().min(1).optional(),
    minTransformations: z.number().int().min(0).max(20).default(0),
    examples: z
      .strictObject({ match: z.array(example).default([]), pass: z.array(example).default([]) })
      .prefault({}),
  })
  .refine((rule) => (rule.pattern === undefined) !== (rule.patterns === undefined), {
    message: 'one of `pattern` and `patterns` is needed, not both',
  });

type RuleFile = z.output<typeof ruleFile>;

const RULE_FILES_MAX = 20_000;

/**
 * All rules under a folder, in order of their paths.
 * @throws Fault RULES_INVALID with every problem found: file, rule id, position.
 */
export function loadRules(dir: string): Rule[] {
  return atOnce(readRuleFolders([dir]));
}

/** Rules by the path of their file, with the text they were made of. */
export type RuleFiles = Map<string, Readonly<{ text: string; rule: Rule }>>;

/**
 * As `loadRules`, yielding after each file; ids are unique over all folders. A file that reads as it does in
 * `known` is not compiled again; where all goes well, `known` then has the files of now.
 */
export function* readRuleFolders(
  dirs: readonly string[],
  known: RuleFiles = new Map(),
): Generator<undefined, Rule[]> {
  const files: RuleFiles = new Map();
  const problems: string[] = [];
  const rules: Rule[] = [];
  const seen = new Map<string, string>();
  for (const dir of dirs) {
    for (const file of listRuleFiles(dir, problems)) {
      const rule = readRule({ path: file, file: relative(dir, file), problems }, known, files);
      yield;
      if (rule === undefined) continue;
      const other = seen.get(rule.id);
      if (other !== undefined) problems.push(`${rule.file} (${rule.id}): the id is taken by ${other}`);
      seen.set(rule.id, rule.file);
      rules.push(rule);
    }
  }
  if (problems.length > 0)
    throw new Fault('RULES_INVALID', { count: problems.length, problems: problems.join('\n') });
  known.clear();
  for (const [path, entry] of files) known.set(path, entry);
  return rules;
}

function listRuleFiles(dir: string, problems: string[]): string[] {
  try {
    const names = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.ya?ml$/.test(name),
    );
    if (names.length > RULE_FILES_MAX)
      problems.push(`${dir}: ${names.length} files; at most ${RULE_FILES_MAX} fit`);
    return names
      .sort()
      .slice(0, RULE_FILES_MAX)
      .map((name) => join(dir, name));
  } catch (error) {
    problems.push(`${dir}: cannot read the folder: ${(error as Error).message}`);
    return [];
  }
}

function readRule(
  { path, file, problems }: Readonly<{ path: string; file: string; problems: string[] }>,
  known: RuleFiles,
  files: RuleFiles,
): Rule | undefined {
  try {
    const text = readFileSync(path, 'utf8');
    const before = known.get(path);
    const isSame = before?.text === text && before.rule.file === file;
    const rule = isSame ? before.rule : compileRule(parse(text), file, problems);
    if (rule !== undefined) files.set(path, { text, rule });
    return rule;
  } catch (error) {
    problems.push(`${file}: ${(error as Error).message.split('\n').slice(0, 2).join(' ')}`);
    return undefined;
  }
}

/** A rule from its parsed file; problems are added to the list, and the answer is then undefined. */
export function compileRule(source: unknown, file: string, problems: string[]): Rule | undefined {
  const parsed = ruleFile.safeParse(source);
  const id = typeof source === 'object' && source !== null && 'id' in source ? String(source.id) : 'no id';
  if (!parsed.success) {
    for (const issue of parsed.error.issues)
      problems.push(`${file} (${id}): ${issue.path.join('.') || 'rule'}: ${issue.message}`);
    return undefined;
  }
  const before = problems.length;
  const rule = parsed.data;
  const patterns = rule.patterns ?? [rule.pattern ?? ''];
  const compilePattern = (pattern: string, key: string, flags = 'isu'): RE2[] => {
    try {
      if (unsupported(pattern) === undefined) return [new RE2(pattern, flags)];
      problems.push(`${file} (${id}): ${key}: ${unsupported(pattern)}`);
    } catch (error) {
      problems.push(`${file} (${id}): ${key}: ${(error as Error).message}`);
    }
    return [];
  };
  const compiled = patterns.flatMap((text, index) =>
    compilePattern(text, rule.patterns ? `patterns.${index}` : 'pattern'),
  );
  const unless = rule.unless === undefined ? undefined : compilePattern(rule.unless, 'unless')[0];
  const without =
    rule.without === undefined ? undefined : compilePattern(rule.without, 'without', 'gisu')[0];
  return problems.length > before ? undefined : toRule(rule, { file, patterns, compiled, unless, without });
}

type Compiled = Pick<Rule, 'file' | 'patterns' | 'compiled' | 'unless' | 'without'>;

function toRule(rule: RuleFile, made: Compiled): Rule {
  const { id, title, paranoiaLevel, minTransformations, transformations, headers } = rule;
  return {
    ...made,
    id,
    title,
    paranoiaLevel,
    minTransformations,
    class: rule.class,
    severity: rule.severity as Severity,
    observe: rule.mode === 'observe',
    targets: new Set(rule.targets),
    headers: headers === undefined ? undefined : new Set(headers.map((name) => name.toLowerCase())),
    transformations:
      transformations === 'default' ? 'default' : new Set(transformations === 'none' ? [] : transformations),
    examples: { match: rule.examples.match.map(toExample), pass: rule.examples.pass.map(toExample) },
  };
}

function toExample(given: z.output<typeof example>): RuleExample {
  return typeof given === 'string' ? { target: undefined, value: given } : given;
}

/**
 * What RE2 leaves out on purpose, by name and position, so that the author need not guess from its own
 * message.
 */
function unsupported(pattern: string): string | undefined {
  let inClass = false;
  for (let at = 0; at < pattern.length; at++) {
    const rest = pattern.slice(at, at + 4);
    if (rest.startsWith('\\')) {
      if (!inClass && /^\\(?:[1-9]|k<)/.test(rest))
        return `back-reference at character ${at + 1} cannot be run in linear time`;
      at++;
    } else if (inClass) inClass = !rest.startsWith(']');
    else if (rest.startsWith('[')) {
      inClass = true;
      at += /^\[\^?\]/.test(rest) ? rest.indexOf(']') : 0;
    } else if (/^\(\?(?:[=!]|<[=!])/.test(rest))
      return `look-around at character ${at + 1} cannot be run in linear time`;
  }
  return undefined;
}
