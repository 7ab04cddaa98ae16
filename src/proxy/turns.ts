/**
 * Work that must be done one after the other, some of it at once and some of it by promise. What is ready is
 * done in the same turn of the event loop: a small body costs no promise.
 */

export type Turns = Readonly<{
  /** Done when all that was added before is done. */
  add(act: () => void | Promise<void>): void;
}>;

/** `failed` is told of what an act threw or rejected with; those behind it are done all the same. */
export function createTurns(failed: (error: unknown) => void): Turns {
  const waiting: (() => void | Promise<void>)[] = [];
  let busy = false;

  function run(): void {
    busy = true;
    for (let act; (act = waiting.shift()) !== undefined;) {
      try {
        const done = act();
        if (done !== undefined) return void done.catch(failed).then(run);
      } catch (error) {
        failed(error);
      }
    }
    busy = false;
  }

  return {
    add(act) {
      waiting.push(act);
      if (!busy) run();
    },
  };
}
