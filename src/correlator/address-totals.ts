/**
 * How many requests each address sent lately, in fixed memory: a count-min sketch (Cormode and Muthukrishnan
 * 2005) of two rows, kept for this and the last stretch of event time. It may answer too much, never too
 * little, so a share reckoned with it is too small and an address is spared rather than banned. Stretches
 * begin at the same times everywhere, so that the sketches of all partitions add up.
 */
import type { Saved } from './detector.js';
import { hash32 } from '../structures/text-hash.js';
import { numberOf, recordOf, textOf } from './saved.js';

const CELLS = 8_192;
const STRETCH_MS = 5_400_000;

type Sketch = { stretch: number; cells: Uint32Array };

export type AddressTotals = Readonly<{
  add(key: string, timeMs: number): void;
  /** What the two rows say of the last 90 to 180 minutes before `nowMs`. */
  rows(key: string, nowMs: number): readonly [number, number];
  save(): Saved;
}>;

export function createAddressTotals(saved?: Saved): AddressTotals {
  const record = saved === undefined ? undefined : recordOf(saved);
  const sketches = ['even', 'odd'].map((name) => openSketch(record?.[name]));
  return {
    add(key, timeMs) {
      const stretch = Math.floor(timeMs / STRETCH_MS);
      const sketch = sketches[stretch & 1]!;
      if (sketch.stretch !== stretch) {
        // One that is older than the sketch in its place came far too late.
        if (stretch < sketch.stretch) return;
        sketch.stretch = stretch;
        sketch.cells.fill(0);
      }
      const hash = hash32(key);
      sketch.cells[hash & (CELLS - 1)]! += 1;
      sketch.cells[CELLS + ((hash >>> 13) & (CELLS - 1))]! += 1;
    },
    rows(key, nowMs) {
      const stretch = Math.floor(nowMs / STRETCH_MS);
      const hash = hash32(key);
      let [first, second] = [0, 0];
      for (const sketch of sketches) {
        if (sketch.stretch !== stretch && sketch.stretch !== stretch - 1) continue;
        first += sketch.cells[hash & (CELLS - 1)]!;
        second += sketch.cells[CELLS + ((hash >>> 13) & (CELLS - 1))]!;
      }
      return [first, second];
    },
    save: () => ({ even: writeSketch(sketches[0]!), odd: writeSketch(sketches[1]!) }),
  };
}

/** Requests of the address in all partitions together. */
export function totalOf(all: readonly AddressTotals[], key: string, nowMs: number): number {
  const rows = all.map((totals) => totals.rows(key, nowMs));
  const sum = (row: 0 | 1): number => rows.reduce((total, counts) => total + counts[row], 0);
  return Math.min(sum(0), sum(1));
}

function writeSketch({ stretch, cells }: Sketch): Saved {
  const isEmpty = cells.every((count) => count === 0);
  const bytes = Buffer.from(cells.buffer, cells.byteOffset, cells.byteLength);
  return { stretch, cells: isEmpty ? '' : bytes.toString('base64') };
}

function openSketch(saved: Saved | undefined): Sketch {
  const cells = new Uint32Array(2 * CELLS);
  if (saved === undefined) return { stretch: 0, cells };
  const record = recordOf(saved);
  const bytes = Buffer.from(textOf(record['cells']), 'base64');
  if (bytes.length !== 0 && bytes.length !== cells.byteLength) throw new TypeError('no saved sketch');
  Buffer.from(cells.buffer).set(bytes);
  return { stretch: numberOf(record['stretch']), cells };
}
