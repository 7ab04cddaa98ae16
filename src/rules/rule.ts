/** A rule in its compiled form, and the places where a value can stand in a request. */
import type RE2 from 're2';
import type { Severity } from '../core/finding.js';

export const TARGETS = [
  'query',
  'path',
  'header',
  'cookie',
  'form',
  'multipart',
  'filename',
  'json',
  'raw',
  'file',
  'argname',
  'segment',
] as const;

export type Target = (typeof TARGETS)[number];

/** Where a rule without `targets` looks: text that an application takes as a value. */
export const DEFAULT_TARGETS: readonly Target[] = TARGETS.filter(
  (target) => !['file', 'path', 'header'].includes(target),
);

/** Rules are compiled into one set for each kind of text, so that a pass runs only what may apply there. */
export type SetKind = 'text' | 'header' | 'path' | 'file';

export function setKind(target: Target): SetKind {
  return target === 'header' || target === 'path' || target === 'file' ? target : 'text';
}

export type Rule = Readonly<{
  id: string;
  title: string;
  class: string;
  severity: Severity;
  paranoiaLevel: number;
  observe: boolean;
  targets: ReadonlySet<Target>;
  /** Lower-case names; undefined where every header counts. */
  headers: ReadonlySet<string> | undefined;
  /** `default` takes every form of the value; a list only forms made by these alone. */
  transformations: 'default' | ReadonlySet<string>;
  minTransformations: number;
  patterns: readonly string[];
  compiled: readonly RE2[];
  unless: RE2 | undefined;
  /** Cut out of the text before the patterns look at it. */
  without: RE2 | undefined;
  examples: Readonly<{ match: readonly RuleExample[]; pass: readonly RuleExample[] }>;
  file: string;
}>;

export type RuleExample = Readonly<{ target: Target | undefined; value: string }>;
