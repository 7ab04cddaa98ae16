/** Raw text that is judged as it comes, window by window, so that what refuses it is found early. */
import type { Judge } from '../judge.js';
import type { WindowBounds } from './windows.js';

export type RawText = Readonly<{
  write(text: string): Iterator<void>;
  /** What was not judged yet, with what overlaps. */
  rest(): string;
}>;

export function createRawText(judge: Judge, { windowBytes, overlapBytes }: WindowBounds): RawText {
  let rest = '';
  return {
    *write(text) {
      rest += text;
      while (rest.length > windowBytes) {
        judge.add({ target: 'raw', name: '', text: rest.slice(0, windowBytes), encoding: 'none' });
        rest = rest.slice(windowBytes - overlapBytes);
        yield;
      }
    },
    rest: () => rest,
  };
}
