/**
 * zod's issues → problems in the file's words: what was found, what would fit, the nearest name for an
 * unknown key.
 */
import type { z } from 'zod';
import { nearestName } from '../core/nearest-name.js';
import { found, type Path, type Problem } from './problem.js';
import { keysAt, type Schema } from './schema-walk.js';

type Issue = z.core.$ZodIssue;

/** `root` is the value that was checked; it is read for "found …". */
export function problemsOf(issues: readonly Issue[], schema: Schema, root: unknown): Problem[] {
  return issues.flatMap((issue) => one(issue, [], { schema, root }));
}

type Context = Readonly<{ schema: Schema; root: unknown }>;

function one(issue: Issue, base: Path, context: Context): Problem[] {
  const path = [...base, ...issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part))];
  const value = valueAt(context.root, path);
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => unknownKey(key, path, context));
    case 'invalid_union':
      return union(issue, path, context);
    case 'custom':
      return [{ path, message: issue.message }];
    default:
      if (value === undefined) return [{ path, message: `is missing; ${fits(issue)}` }];
      return [{ path, message: `found ${found(value)}; ${fits(issue)}` }];
  }
}

function unknownKey(key: string, path: Path, { schema }: Context): Problem {
  const known = keysAt(schema, path);
  const nearest = nearestName(key, known);
  const hint =
    nearest !== undefined
      ? `did you mean "${nearest}"?`
      : known.length === 0
        ? ''
        : `known here: ${known.join(', ')}`;
  return { path: [...path, key], atKey: true, message: `unknown key "${key}"; ${hint}`.replace(/; $/, '') };
}

/** The alternative that came furthest speaks; where none fits by its kind, all are named. */
function union(issue: z.core.$ZodIssueInvalidUnion, path: Path, context: Context): Problem[] {
  const alternatives = issue.errors.filter((errors) => errors.length > 0);
  const byKind = alternatives.filter((errors) => !errors.some((error) => isKind(error)));
  const best = byKind.sort((a, b) => a.length - b.length)[0];
  if (best !== undefined) return best.flatMap((error) => one(error, path, context));
  const value = valueAt(context.root, path);
  const wanted = [...new Set(alternatives.flatMap((errors) => errors.filter(isKind).map(fits)))]
    .map((text) => text.replace(/ fits?$/, ''))
    .join(', or ');
  const what = wanted === '' ? issue.message : `${wanted} fits`;
  return [{ path, message: value === undefined ? `is missing; ${what}` : `found ${found(value)}; ${what}` }];
}

function isKind(issue: Issue): boolean {
  return issue.path.length === 0 && (issue.code === 'invalid_type' || issue.code === 'invalid_value');
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a group of keys',
  record: 'a group of keys',
};

function fits(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `${KINDS[issue.expected] ?? issue.expected} fits`;
    case 'invalid_value':
      return `${issue.values.map(String).join(', ')} ${issue.values.length > 1 ? 'fit' : 'fits'}`;
    case 'too_small':
      return `at least ${Number(issue.minimum)}${of(issue.origin)} ${issue.inclusive === false ? 'and more ' : ''}fits`;
    case 'too_big':
      return `at most ${Number(issue.maximum)}${of(issue.origin)} fits`;
    case 'invalid_format':
      return issue.pattern === undefined
        ? `${article(issue.format)} fits`
        : `text matching ${issue.pattern} fits`;
    default:
      return issue.message;
  }
}

function of(origin: string): string {
  if (origin === 'string') return ' characters';
  return origin === 'array' || origin === 'set' ? ' entries' : '';
}

function article(format: string): string {
  return format === 'url' ? 'a URL such as http://10.0.0.11:3000' : `a ${format}`;
}

function valueAt(root: unknown, path: Path): unknown {
  let at = root;
  for (const part of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<string | number, unknown>)[part];
  }
  return at;
}
