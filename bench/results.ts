/**
 * Puts one generated part into bench/RESULTS.md and leaves the rest as it is: `results NAME < text`. Parts
 * stand between `<!-- NAME -->` and `<!-- /NAME -->`; one that is not there yet is added at the end.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, import.meta.dirname.includes('/dist/') ? '../..' : '..');
const file = path.join(root, 'bench', 'RESULTS.md');

/** `text` with the part of this name replaced by `fresh`, or with it at the end. */
export function withPart(text: string, name: string, fresh: string): string {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const part = `${open}\n${fresh.trim()}\n${close}`;
  const from = text.indexOf(open);
  const to = text.indexOf(close, from);
  if (from < 0 || to < 0) return `${text.trimEnd()}\n\n${part}\n`;
  return text.slice(0, from) + part + text.slice(to + close.length);
}

const [name] = process.argv.slice(2);
if (name !== undefined && /\bresults\.[jt]s$/.test(process.argv[1] ?? '')) {
  writeFileSync(file, withPart(readFileSync(file, 'utf8'), name, readFileSync(0, 'utf8')));
}
