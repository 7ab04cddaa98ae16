/** `a=1&b=2` as a form or a query writes it (URL Living Standard 5.1): split first, decoded by the judge. */
import type { Judge } from '../judge.js';
import { addContained } from './json-leaves.js';
import { decodeForm } from '../transform/percent.js';

/** Answers the number of pairs; `onPair` sees the undecoded name and value. */
export function addPairs(
  judge: Judge,
  text: string,
  target: 'query' | 'form',
  onPair?: (name: string, value: string) => void,
): number {
  let count = 0;
  let from = 0;
  while (from <= text.length) {
    let to = text.indexOf('&', from);
    if (to < 0) to = text.length;
    if (to > from) {
      count++;
      addPair(judge, text.slice(from, to), target, onPair);
    }
    from = to + 1;
  }
  return count;
}

/** `{`, `[`, percent-encoded, a token, or a `data:` URI. */
function mayContain(value: string): boolean {
  const first = value.charCodeAt(0);
  if (first === 0x7b || first === 0x5b || first === 0x25) return true;
  return value.startsWith('eyJ') || value.includes('base64,');
}

function addPair(
  judge: Judge,
  pair: string,
  target: 'query' | 'form',
  onPair?: (name: string, value: string) => void,
): void {
  const equals = pair.indexOf('=');
  const name = equals < 0 ? pair : pair.slice(0, equals);
  const value = equals < 0 ? '' : pair.slice(equals + 1);
  judge.add({ target: 'argname', name: '', text: name, encoding: 'form' });
  if (value !== '') {
    judge.add({ target, name, text: value, encoding: 'form' });
    if (mayContain(value)) addContained(judge, { target, name, text: decodeForm(value) });
  }
  onPair?.(name, value);
}
