/** What is wrong in a config file: where, what was found, what would fit. */

export type Path = readonly (string | number)[];

export type Problem = Readonly<{
  path: Path;
  message: string;
  /** Known where the text itself is broken; otherwise looked up by path. */
  line?: number;
  /** Point at the key (an unknown one), not at its value. */
  atKey?: boolean;
}>;

/** `sites[0].hosts[1]`; `(top)` for the file as a whole. */
export function pathText(path: Path): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += text === '' ? part : `.${part}`;
  }
  return text === '' ? '(top)' : text;
}

/** A value as it stands in the file, on one line and short. */
export function found(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'an empty value';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object') return 'a group of keys';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…"` : text;
}
