/** Where the supervisor's correlator runs: a thread of its own, so that no evaluation holds up the limits. */
import { parentPort } from 'node:worker_threads';
import type { Config } from '../config/schema.js';
import type { BanBook, BanOutcome } from '../controls/ban-book-contract.js';
import { createInMemoryCorrelator, type InMemoryCorrelator } from './correlator-in-memory.js';
import type { FromThread, ToThread } from './correlator-messages.js';

const VIEW_MS = 1_000;

if (parentPort !== null) run(parentPort);

function run(port: NonNullable<typeof parentPort>): void {
  const tell = (message: FromThread): void => port.postMessage(message);
  const { book, answered } = bookBehind(tell);
  let config: Config | undefined;
  let correlator: InMemoryCorrelator | undefined;
  const follow = (next: Config): void => {
    config = next;
    correlator ??= createInMemoryCorrelator({
      config: () => config!,
      book,
      log: (level, text, fields) => tell({ kind: 'log', level, text, fields }),
    });
    void correlator.follow();
  };
  const close = async (): Promise<void> => {
    clearInterval(views);
    await correlator?.close();
    port.close();
  };
  const views = setInterval(() => tell({ kind: 'view', view: correlator?.view() }), VIEW_MS).unref();
  port.on('message', (message: ToThread) => {
    switch (message.kind) {
      case 'observations':
        correlator?.offer(message.batch[1]);
        return tell({ kind: 'took', count: message.batch[0] });
      case 'config':
        return follow(message.config);
      case 'answer':
        return answered(message);
      case 'close':
        return void close();
    }
  });
}

type Answer = Extract<ToThread, { kind: 'answer' }>;

/** The supervisor's book, asked over the line. */
function bookBehind(tell: (message: FromThread) => void) {
  const waiting = new Map<
    number,
    Readonly<{ done: (of: readonly BanOutcome[]) => void; fail: (why: Error) => void }>
  >();
  let last = 0;
  const asked = (message: (id: number) => FromThread): Promise<readonly BanOutcome[]> =>
    new Promise((done, fail) => {
      const id = ++last;
      waiting.set(id, { done, fail });
      tell(message(id));
    });
  const book: Pick<BanBook, 'ban' | 'note'> = {
    ban: (asks) => asked((id) => ({ kind: 'ban', id, asks })),
    note: async (note) => void (await asked((id) => ({ kind: 'note', id, note }))),
  };
  return {
    book,
    answered({ id, outcomes, problem }: Answer): void {
      const ask = waiting.get(id);
      waiting.delete(id);
      if (problem === undefined) ask?.done(outcomes);
      else ask?.fail(new Error(problem));
    },
  };
}
