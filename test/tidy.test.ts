/**
 * The rules of style that a machine can check: layering, cycles, sizes, headers, words, tests. Prints
 * offenders.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import t from 'tap';

const ROOT = resolve(import.meta.dirname, '..');
const SRC = join(ROOT, 'src');
const LINES_MAX = 300;
const COLUMNS_MAX = 110;
const HEADER_MAX = 12;
const SHOWN = 60;

const ENGINES = [
  'identity',
  'reputation',
  'limits',
  'headers',
  'rules',
  'decision',
  'ladder',
  'telemetry',
  'guard',
  'smart',
  'correlator',
  'xdp',
];
/** From the bottom up; folders on one line never import each other. */
const LEVELS: readonly (readonly string[])[] = [
  ['core'],
  ['structures'],
  ['redis', 'bus'],
  ['controls'],
  ENGINES,
  ['pipeline'],
  ['proxy', 'admin', 'cluster'],
  ['config'],
  ['roles'],
  ['cli'],
  ['main'],
];
/** Types that a part offers to the others; importing them binds nobody to the work behind. */
const CONTRACTS = /(?:contract|\/engine|\/stage)\.ts$/;
/** Generated tables may be long. */
const GENERATED = /\.generated\.ts$/;

type Source = Readonly<{
  path: string;
  part: string;
  text: string;
  lines: readonly string[];
  isTest: boolean;
}>;
type Import = Readonly<{ from: Source; to: string; typeOnly: boolean }>;

function read(folder: string): Source[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((file) => {
      const text = readFileSync(file, 'utf8');
      const path = relative(ROOT, file);
      const part = path.split('/')[1]!.replace(/\.ts$/, '');
      return { path, part, text, lines: text.split('\n'), isTest: file.endsWith('.test.ts') };
    });
}

const sources = read(SRC);
const code = sources.filter((source) => !source.isTest);
const tests = [
  ...sources.filter((source) => source.isTest),
  ...read(join(ROOT, 'test')),
  ...read(join(ROOT, 'bench')),
];

const STATEMENT =
  /^(?:import|export)\s+(type\s)?[^'";]*?from\s+'(\.{1,2}\/[^']+)'|\bimport\('(\.{1,2}\/[^']+)'\)/gm;

function importsOf(source: Source): Import[] {
  return [...source.text.matchAll(STATEMENT)].map((found) => {
    const target = resolve(dirname(join(ROOT, source.path)), found[2] ?? found[3]!).replace(/\.js$/, '.ts');
    return { from: source, to: relative(ROOT, target), typeOnly: found[1] !== undefined };
  });
}

function levelOf(part: string): number {
  return LEVELS.findIndex((level) => level.includes(part));
}

function layering({ from, to, typeOnly }: Import): string | undefined {
  if (!to.startsWith('src/')) return `${from.path} imports ${to}, outside src`;
  const part = to.split('/')[1]!.replace(/\.ts$/, '');
  if (part === from.part) return undefined;
  if (levelOf(part) < levelOf(from.part)) return undefined;
  if (typeOnly && CONTRACTS.test(to)) return undefined;
  return `${from.path} (${from.part}) must not import ${to}`;
}

/** One ring of files that import each other's values, as a line; types alone make no ring. */
function cycles(imports: readonly Import[]): string[] {
  const next = new Map<string, string[]>();
  for (const { from, to, typeOnly } of imports) {
    if (!typeOnly) next.set(from.path, [...(next.get(from.path) ?? []), to]);
  }
  const done = new Set<string>();
  const rings: string[] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    const seenAt = trail.indexOf(path);
    if (seenAt >= 0) rings.push([...trail.slice(seenAt), path].join(' → '));
    if (seenAt >= 0 || done.has(path)) return;
    for (const to of next.get(path) ?? []) visit(to, [...trail, path]);
    done.add(path);
  };
  for (const path of next.keys()) visit(path, []);
  return rings;
}

function codeLines(source: Source): number {
  let count = 0;
  let inComment = false;
  for (const line of source.lines) {
    const text = line.trim();
    if (inComment) {
      inComment = !text.includes('*/');
    } else if (text.startsWith('/*')) {
      inComment = !text.includes('*/');
    } else if (text !== '' && !text.startsWith('//')) count++;
  }
  return count;
}

function offences(of: readonly Source[], test: (line: string, source: Source) => boolean): string[] {
  return of.flatMap((source) =>
    source.lines.flatMap((line, index) =>
      test(line, source) ? [`${source.path}:${index + 1}: ${line.trim().slice(0, 90)}`] : [],
    ),
  );
}

/** Text and patterns cannot be broken over lines, so that a literal counts for 20 columns at most. */
function widthOf(line: string): number {
  return line.replace(
    /'(?:[^'\\]|\\.){20,}'|`(?:[^`\\]|\\.){20,}`|"(?:[^"\\]|\\.){20,}"|\/(?:[^/\\\s]|\\.){20,}\//g,
    '12345678901234567890',
  ).length;
}

const none = (offenders: readonly string[], title: string) => {
  t.equal(offenders.length, 0, title);
  for (const offender of offenders.slice(0, SHOWN)) t.comment(offender);
};

const imports = code.flatMap(importsOf);

none(
  [...new Set(code.filter(({ part }) => levelOf(part) < 0).map(({ path }) => path))],
  'every folder has its level',
);
none(
  imports.flatMap((one) => layering(one) ?? []),
  'imports point only down, and never sideways',
);
none(cycles(imports), 'no ring of imports');
none(
  code
    .filter((one) => !GENERATED.test(one.path) && codeLines(one) > LINES_MAX)
    .map((one) => `${one.path}: ${codeLines(one)}`),
  `no file has more than ${LINES_MAX} lines of code`,
);
none(
  offences(
    [...code, ...tests].filter((one) => !GENERATED.test(one.path)),
    (line) => line.length > COLUMNS_MAX && widthOf(line) > COLUMNS_MAX,
  ),
  `no line is longer than ${COLUMNS_MAX} columns`,
);
none(
  code.filter(({ text }) => !/^(?:#!.*\n)?\/(?:\*\*?|\/)/.test(text)).map(({ path }) => path),
  'every file opens with what it is for',
);
none(
  code
    .filter(
      ({ text }) => (/^(?:#!.*\n)?(\/\*[^]*?\*\/)/.exec(text)?.[1]?.split('\n').length ?? 0) > HEADER_MAX,
    )
    .map(({ path }) => path),
  'the opening comment is short',
);
none(
  offences([...code, ...tests], (line) =>
    /(?:\/\/|^\s*\*|\/\*).*\b(?:TODO|FIXME)\b(?!.*#\d)/.test(line.replace(/TODO\|FIXME/, '')),
  ),
  'no TODO without an issue number',
);
none(
  offences(code, (line, { part }) => /\bconsole\.\w+\(/.test(line) && part !== 'cli' && part !== 'main'),
  'no console outside the command line',
);
none(
  offences(code, (line) => /^export default\b/.test(line)),
  'exports have names',
);
none(
  offences(
    [...code, ...tests],
    (line) => /eslint-disable|@ts-(?:ignore|nocheck)/.test(line) && !line.includes('/eslint-'),
  ),
  'no check is switched off',
);
none(
  offences(code, (line) =>
    /(?::|<|\bas)\s*any\b(?=[\s;,)>[\]=]|$)/.test(line.replace(/\/\/.*|^\s*\*.*|\/\*.*|'[^']*'/g, '')),
  ),
  'no any',
);
none(
  [...new Set(code.map(({ part }) => part))]
    .filter((part) => ENGINES.includes(part) || part === 'config' || part === 'pipeline' || part === 'proxy')
    .filter((part) => !tests.some((test) => test.path.startsWith(`src/${part}/`))),
  'every engine has tests beside it',
);
