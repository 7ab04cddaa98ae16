/** Long work in slices: the event loop is let go every few milliseconds, so that requests need not wait. */
const SLICE_MS = 5;

/** Resolves at once, or in the next turn of the loop when this slice of work has used up its time. */
export function createPacer(sliceMs = SLICE_MS): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < sliceMs) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}

const REST_MS_MAX = 50;

/** Rests as long as it worked: what runs beside gets half of the time. */
function createRests(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    const ms = performance.now() - since;
    if (ms < SLICE_MS) return undefined;
    return new Promise((resolve) => {
      setTimeout(
        () => {
          since = performance.now();
          resolve();
        },
        Math.min(REST_MS_MAX, ms),
      );
    });
  };
}

/** Runs work that yields at its seams to its end, in slices; gently: with rests between them. */
export async function inSlices<T>(
  work: Generator<undefined, T>,
  { gently = false }: Readonly<{ gently?: boolean }> = {},
): Promise<T> {
  const pause = gently ? createRests() : createPacer();
  for (let step = work.next(); ; step = work.next()) {
    if (step.done === true) return step.value;
    await pause();
  }
}

/** The same at one go. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (let step = work.next(); ; step = work.next()) if (step.done === true) return step.value;
}
