/**
 * The reference page, generated from the schema: every key with type, default, range and sentence, as
 * Markdown.
 */
import { z } from 'zod';
import { configSchema } from './schema.js';
import { unwrap, type Schema } from './schema-walk.js';

type Row = Readonly<{ key: string; type: string; fallback: string; range: string; text: string }>;

/** The whole page; ends with a newline. */
export function configReference(): string {
  const lines = [
    '# Config reference',
    '',
    'Generated from the schema by `tidegate config-reference` (`make docs`); do not edit.',
    'One YAML file; unknown keys are refused, and `tidegate check --config FILE` names every problem at once.',
    'Durations are written `500ms`, `10s`, `15m`, `24h`; sizes `256KB`, `10MB`; rates `5/min`, `60/10s`.',
    '`${NAME}` in a value takes the environment variable of that name, `$${` stands for a literal `${`.',
    'Paths are relative to the config file.',
    '',
  ];
  const top: Row[] = [];
  const sections: [string, string, Row[]][] = [];
  for (const [key, schema] of Object.entries(configSchema.shape) as [string, Schema][]) {
    const rows: Row[] = [];
    walk(key, schema, rows);
    const isSection = unwrap(schema) instanceof z.ZodObject;
    if (isSection) sections.push([key, describe(schema), rows.filter((row) => row.key !== key)]);
    else top.push(...rows);
  }
  lines.push('## Top level', '', ...table(top));
  for (const [key, text, rows] of sections) {
    lines.push(`## ${key}`, '', ...(text === '' ? [] : [text, '']), ...table(rows));
  }
  return `${lines.join('\n').trimEnd()}\n`;
}

function table(rows: readonly Row[]): string[] {
  const cell = (text: string) => text.replace(/\|/g, '\\|').replace(/\n/g, ' ');
  const line = (row: Row) =>
    `| \`${row.key}\` | ${cell(row.type)} | ${cell(row.fallback)} | ${cell(row.range)} | ${cell(row.text)} |`;
  return ['| key | type | default | range | meaning |', '|---|---|---|---|---|', ...rows.map(line), ''];
}

function walk(key: string, schema: Schema, rows: Row[]): void {
  rows.push({
    key,
    type: typeOf(schema),
    fallback: fallbackOf(schema),
    range: rangeOf(schema),
    text: describe(schema),
  });
  const inner = unwrap(schema);
  if (measuredKind(schema) === undefined) descend(key, inner, rows);
}

function descend(key: string, inner: Schema, rows: Row[]): void {
  if (inner instanceof z.ZodObject) {
    for (const [name, child] of Object.entries(inner.shape) as [string, Schema][])
      walk(`${key}.${name}`, child, rows);
  } else if (inner instanceof z.ZodArray) descend(`${key}[]`, unwrap(inner.element), rows);
  else if (inner instanceof z.ZodRecord) descend(`${key}.<name>`, unwrap(inner.valueType), rows);
  else if (inner instanceof z.ZodUnion) {
    const seen = new Set(rows.map((row) => row.key));
    for (const option of inner.options) {
      const found: Row[] = [];
      descend(key, unwrap(option), found);
      for (const row of found) {
        if (!seen.has(row.key)) rows.push(row);
        seen.add(row.key);
      }
    }
  }
}

function* layers(schema: Schema): Generator<Schema> {
  for (let at: Schema | undefined = schema; at !== undefined;) {
    yield at;
    if (at instanceof z.ZodPipe) at = at.in instanceof z.ZodTransform ? at.out : at.in;
    else if (at instanceof z.ZodDefault || at instanceof z.ZodPrefault || at instanceof z.ZodOptional)
      at = at.unwrap();
    else at = undefined;
  }
}

type Meta = { description?: string; kind?: string; min?: number; max?: number };

function meta<K extends keyof Meta>(schema: Schema, name: K): Meta[K] | undefined {
  for (const layer of layers(schema)) {
    const value = (z.globalRegistry.get(layer as z.ZodType) as Meta | undefined)?.[name];
    if (value !== undefined) return value;
  }
  return undefined;
}

function describe(schema: Schema): string {
  return meta(schema, 'description') ?? '';
}

function measuredKind(schema: Schema): string | undefined {
  return meta(schema, 'kind');
}

function typeOf(schema: Schema): string {
  const kind = measuredKind(schema);
  if (kind !== undefined) return kind;
  const inner = unwrap(schema);
  if (inner instanceof z.ZodUnion)
    return [...new Set(inner.options.map((option) => typeOf(option)))].join(' or ');
  if (inner instanceof z.ZodEnum) return inner.options.map((option) => `\`${String(option)}\``).join(', ');
  if (inner instanceof z.ZodLiteral)
    return [...inner.values].map((value) => `\`${String(value)}\``).join(', ');
  if (inner instanceof z.ZodArray) return `list of ${typeOf(inner.element)}`;
  if (inner instanceof z.ZodObject) return 'keys';
  if (inner instanceof z.ZodRecord) return `name → ${typeOf(inner.valueType)}`;
  if (inner instanceof z.ZodNumber) return inner.format?.includes('int') === true ? 'whole number' : 'number';
  if (inner instanceof z.ZodURL) return 'URL';
  const { type } = inner._zod.def;
  if (type === 'boolean') return 'true/false';
  return type === 'string' ? 'text' : type;
}

function fallbackOf(schema: Schema): string {
  for (const layer of layers(schema)) {
    if (layer instanceof z.ZodDefault || layer instanceof z.ZodPrefault) {
      const value: unknown = layer.def.defaultValue;
      if (
        typeof value === 'object' &&
        value !== null &&
        !Array.isArray(value) &&
        Object.keys(value).length === 0
      )
        return '';
      return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
    }
    if (layer instanceof z.ZodOptional) return 'absent';
  }
  return unwrap(schema) instanceof z.ZodObject ? '' : 'required';
}

function rangeOf(schema: Schema): string {
  const kind = measuredKind(schema);
  const inner = unwrap(schema);
  const number = inner instanceof z.ZodNumber ? inner : undefined;
  const min = kind === undefined ? bounded(number?.minValue) : meta(schema, 'min');
  const max = kind === undefined ? bounded(number?.maxValue) : meta(schema, 'max');
  const unit = kind === 'duration' ? ' ms' : kind === 'size' ? ' bytes' : '';
  if (min !== undefined && max !== undefined) return `${min}–${max}${unit}`;
  if (min !== undefined) return `≥ ${min}${unit}`;
  return max === undefined ? '' : `≤ ${max}${unit}`;
}

function bounded(value: number | null | undefined): number | undefined {
  return typeof value === 'number' && Math.abs(value) < Number.MAX_SAFE_INTEGER ? value : undefined;
}
