/**
 * Long text and bytes in windows that overlap, so that the cost is linear and the event loop gets its turn.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Finding } from '../../core/finding.js';
import { NO_FINDINGS } from '../../core/finding.js';
import type { BodyWatch, MaybePromise } from '../engine.js';
import type { Judge, Value } from '../judge.js';
import { createGaps } from './gaps.js';

export type WindowBounds = Readonly<{ windowBytes: number; overlapBytes: number; decodeDepth: number }>;

/** Work longer than this gives the event loop its turn; one step or one flush may come on top. */
const TURN_MS = 5;
/** A flush of this much takes as long as a turn may, so it does not come on top of one half spent. */
const FLUSH_CHARS = 16_384;

export type StepsOf = Readonly<{ judge: Judge; pieceChars: number; watch: BodyWatch | undefined }>;

/**
 * Work in pieces: each step adds values to the judge, which looks at them when `pieceChars` have gathered.
 * Answers at once where all is done within one piece and one turn, which has begun at `began` (ms). Ends
 * early where the watch has heard enough, nobody waits, or the judge has done all that one request may ask.
 */
export function runSteps(
  steps: Iterator<void>,
  of: StepsOf,
  began = performance.now(),
): MaybePromise<readonly Finding[]> {
  const { judge, pieceChars } = of;
  while (judge.pending() < pieceChars && !judge.exhausted() && performance.now() - began < TURN_MS) {
    if (steps.next().done === true) return judge.flush();
  }
  return runLong(steps, of, began);
}

async function runLong(steps: Iterator<void>, of: StepsOf, began: number): Promise<readonly Finding[]> {
  const { judge, pieceChars, watch } = of;
  const found: Finding[] = [];
  let turn = began;
  while (watch?.gone() !== true) {
    const left = TURN_MS - (performance.now() - turn);
    if (left <= 0 || (left < TURN_MS / 2 && judge.pending() >= Math.min(pieceChars, FLUSH_CHARS))) {
      await nextTurn();
      turn = performance.now();
    }
    if (judge.exhausted()) break;
    if (judge.pending() >= pieceChars) {
      const brought = judge.flush();
      if (brought.length === 0) continue;
      if (watch === undefined) found.push(...brought);
      else if (!(await watch.found(brought))) return NO_FINDINGS;
    } else if (steps.next().done === true) break;
  }
  return found.concat(judge.flush());
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
  const gaps = createGaps(text, value.encoding, bounds.decodeDepth);
  for (let found = gaps.next(); found !== undefined; found = gaps.next()) {
    for (const around of found) judge.add({ ...value, text: around, encoding: 'none' });
    yield;
  }
}
