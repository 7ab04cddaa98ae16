/**
 * Long text and bytes in windows that overlap, so that the cost is linear and the event loop gets its turn.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Finding } from '../../core/finding.js';
import type { MaybePromise } from '../engine.js';
import type { Judge, Value } from '../judge.js';

export type WindowBounds = Readonly<{ windowBytes: number; overlapBytes: number }>;

/** Work longer than this gives the event loop its turn; one flush may come on top. */
const TURN_MS = 8;

/**
 * Work in pieces: each step adds values to the judge, which looks at them when `pieceChars` have gathered.
 * Answers at once where all is done within one piece and one turn, which has begun at `began` (ms).
 */
export function runSteps(
  steps: Iterator<void>,
  judge: Judge,
  pieceChars: number,
  began = performance.now(),
): MaybePromise<readonly Finding[]> {
  const found: Finding[] = [];
  let turn = began;
  while (judge.pending() < pieceChars && performance.now() - turn < TURN_MS) {
    if (steps.next().done === true) return judge.flush();
  }
  return (async () => {
    for (;;) {
      if (performance.now() - turn >= TURN_MS) {
        await nextTurn();
        turn = performance.now();
      }
      if (judge.pending() >= pieceChars) found.push(...judge.flush());
      else if (steps.next().done === true) return found.concat(judge.flush());
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
