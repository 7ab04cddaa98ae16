/** The limits of one identity, as a table for a person. */
import type { LimitsShown } from '../admin/route.js';

type Row = LimitsShown['limits'][number];

const ROLES: Readonly<Record<Row['role'], string>> = {
  limit: '',
  address: 'all behind the address',
  network: 'all in the /56',
  alarm: 'alarm only',
};

/** `reset`: they stood so before and are set back now. */
export function printLimits({ limits }: LimitsShown, reset: boolean): string {
  if (limits.length === 0) return 'no policy counts what was given\n';
  const head = ['policy', 'by', 'used', 'left', 'back in full', 'next request', 'remarks'];
  const table = tableOf([head, ...limits.map(cells)]);
  if (reset) table.push('', `set back: ${limits.length}; the table shows how they stood`);
  return `${table.join('\n')}\n`;
}

/** Columns as wide as their widest cell. */
export function tableOf(lines: readonly (readonly string[])[]): string[] {
  const widest = (at: number): number => lines.reduce((most, line) => Math.max(most, line[at]!.length), 0);
  const widths = (lines[0] ?? []).map((_, at) => widest(at));
  return lines.map((line) => line.map((cell, at) => cell.padEnd(widths[at]!)).join('  ').trimEnd());
}

function cells(row: Row): string[] {
  const remarks = [row.algorithm, ROLES[row.role], row.observe ? 'only observed' : ''];
  return [
    row.policy,
    row.by,
    `${row.used} of ${row.limit} in ${inWords(row.windowMs)}`,
    String(row.remaining),
    row.resetMs === 0 ? 'now' : `in ${inWords(row.resetMs)}`,
    row.retryAfterMs === 0 ? 'passes' : `refused for ${inWords(row.retryAfterMs)}`,
    remarks.filter((remark) => remark !== '').join(', '),
  ];
}

/** Two units at most: `45 s`, `2 min 5 s`, `3 h`, `1 d 4 h`. Never rounded down. */
export function inWords(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two([Math.floor(seconds / 60), 'min'], [seconds % 60, 's']);
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 1440) return two([Math.floor(minutes / 60), 'h'], [minutes % 60, 'min']);
  const hours = Math.ceil(minutes / 60);
  return two([Math.floor(hours / 24), 'd'], [hours % 24, 'h']);
}

const two = (big: readonly [number, string], small: readonly [number, string]): string =>
  small[0] === 0 ? big.join(' ') : `${big.join(' ')} ${small.join(' ')}`;
