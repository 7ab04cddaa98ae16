/** Long text and bytes in windows that overlap, so that the cost is linear and the event loop gets its turn. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Finding } from '../../core/finding.js';
import type { MaybePromise } from '../engine.js';
import type { Judge, Value } from '../judge.js';

export type WindowBounds = Readonly<{ windowBytes: number; overlapBytes: number }>;

/** Work in pieces: each step adds values to the judge. Nothing is yielded while the pieces stay small. */
export function runSteps(steps: Iterator<void>, judge: Judge, pieceChars: number): MaybePromise<readonly Finding[]> {
  const found: Finding[] = [];
  while (judge.pending() < pieceChars) {
    if (steps.next().done === true) return judge.flush();
  }
  return (async () => {
    for (;;) {
      const done = steps.next().done === true;
      if (!done && judge.pending() < pieceChars) continue;
      found.push(...judge.flush());
      if (done) return found;
      await nextTurn();
    }
  })();
}

/** Adds one value, whole where it is short, window by window where it is long. */
export function* addInWindows(judge: Judge, value: Value, bounds: WindowBounds): Generator<void> {
  const { text } = value;
  if (text.length <= bounds.windowBytes) {
    judge.add(value);
    yield;
    return;
  }
  const stride = bounds.windowBytes - bounds.overlapBytes;
  for (let from = 0; from < text.length - bounds.overlapBytes; from += stride) {
    judge.add({ ...value, text: text.slice(from, from + bounds.windowBytes) });
    yield;
  }
}
