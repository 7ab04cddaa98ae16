/**
 * What is wrong in a config file: where, what was found, what would fit. Also the nearest name for a misspelt
 * one.
 */

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

/** The known name closest to `name` (at most a third of it wrong), if any. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(name.slice(0, 64).toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Levenshtein, with a swap of neighbours as one step; words are short, so the plain table does. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1] ? 0 : 1;
      let cost = Math.min(
        rows[row - 1]![column]! + 1,
        current[column - 1]! + 1,
        rows[row - 1]![column - 1]! + same,
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, rows[row - 2]![column - 2]! + 1);
      }
      current.push(cost);
    }
    rows.push(current);
  }
  return rows[a.length]![b.length]!;
}
