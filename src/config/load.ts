/**
 * Config file → one frozen, complete Config, or every problem at once, each with file, line, key path, what
 * was found and what would fit. Order: YAML, environment, schema, then what only shows across keys.
 */
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { Fault } from '../core/errors.js';
import { tlsProblem } from '../proxy/credentials.js';
import { crossCheck, type Checks, type FileKind } from './cross-check.js';
import { fillFromEnvironment, type Environment } from './environment.js';
import { problemsOf } from './issues.js';
import { pathText, type Problem } from './problem.js';
import { configSchema, type Config } from './schema.js';
import { readYaml } from './yaml-source.js';

export type { Config } from './schema.js';

const PROBLEMS_SHOWN = 50;

export type ParseOptions = Readonly<{
  /** Default: the process's. */
  environment?: Environment;
  /** How files that the config names are looked at; absent: they are not. */
  checks?: Checks;
}>;

/**
 * Reads and checks a config file and the files it names.
 * Throws Fault CONFIG_UNREADABLE, or CONFIG_INVALID with all problems.
 */
export async function loadConfig(file: string): Promise<Config> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new Fault('CONFIG_UNREADABLE', { file }, error);
  }
  return parseConfig(text, file, { checks: { file: checkFile, pair: checkPair } });
}

/** The same for text at hand; `file` names it in messages, and its folder is where relative paths start. */
export function parseConfig(text: string, file: string, options: ParseOptions = {}): Config {
  const baseDir = dirname(resolve(file));
  const source = readYaml(text);
  const problems: Problem[] = [...source.problems];
  const report = (): Fault => invalid(file, lined(problems, source.lineOf));
  if (problems.length > 0) throw report();
  if (source.value === null || source.value === undefined) {
    problems.push({ path: [], line: 1, message: 'found an empty file; at least `sites` is needed' });
    throw report();
  }
  const filled = fillFromEnvironment(source.value, options.environment ?? process.env);
  const parsed = configSchema.safeParse(filled.value);
  problems.push(...filled.problems);
  const across = crossCheck(filled.value, baseDir, options.checks);
  // Of two complaints about one key the one that knows more speaks.
  const told = across.map(({ path }) => pathText(path));
  const isTold = (path: string) => told.some((other) => path === other || path.startsWith(`${other}.`));
  const fromSchema = parsed.success ? [] : problemsOf(parsed.error.issues, configSchema, filled.value);
  for (const problem of [...fromSchema.filter(({ path }) => !isTold(pathText(path))), ...across]) {
    problems.push({ ...problem, message: filled.mask(problem.message) });
  }
  if (problems.length > 0 || !parsed.success) throw report();
  return deepFreeze({ ...parsed.data, baseDir });
}

type Lined = Readonly<{ line: number; text: string }>;

function lined(
  problems: readonly Problem[],
  lineOf: (path: Problem['path'], atKey?: boolean) => number,
): Lined[] {
  const all = problems.map(({ path, message, line, atKey }) => ({
    line: line ?? lineOf(path, atKey),
    text: path.length === 0 && line !== undefined ? message : `${pathText(path)}: ${message}`,
  }));
  return all.sort((a, b) => a.line - b.line);
}

function invalid(file: string, problems: readonly Lined[]): Fault {
  const shown = problems.slice(0, PROBLEMS_SHOWN).map(({ line, text }) => `  ${file}:${line}: ${text}`);
  if (problems.length > PROBLEMS_SHOWN) shown.push(`  … and ${problems.length - PROBLEMS_SHOWN} more`);
  return new Fault('CONFIG_INVALID', { count: problems.length, file, problems: shown.join('\n') });
}

function checkFile(file: string, kind: FileKind): string | undefined {
  try {
    if (kind === 'writable') {
      accessSync(dirname(file), constants.W_OK);
      const known = statSync(file, { throwIfNoEntry: false });
      if (known?.isDirectory() === true) return 'it is a folder';
      if (known !== undefined) accessSync(file, constants.W_OK);
      return undefined;
    }
    const isFolder = statSync(file).isDirectory();
    if (isFolder !== (kind === 'folder')) return `it is ${isFolder ? 'a folder' : 'not a folder'}`;
    accessSync(file, constants.R_OK);
    return undefined;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'ENOENT')
      return `it cannot be ${kind === 'writable' ? 'written' : 'read'} (${code ?? String(error)})`;
    return kind === 'writable' ? 'its folder is not there' : `there is no such ${kind}`;
  }
}

const checkPair: Checks['pair'] = (cert, key) =>
  tlsProblem({ cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') });

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
