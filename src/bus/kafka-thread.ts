/**
 * What runs in the publisher's own thread: kafkajs with its encoding, packing and timers. Calls come by
 * number and are answered by number; the link of an earlier `open` is cut by the next one.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openKafkaLink } from './kafka-link.js';
import { whyOf } from './kafka-client.js';
import { RecordsRefused, type Link } from './link.js';
import type { KafkaSettings } from './settings.js';
import { unpackBatch, type PackedBatch } from './packed-batch.js';

export type ThreadCall =
  | Readonly<{ kind: 'open'; n: number }>
  | Readonly<{ kind: 'send'; n: number; batch: PackedBatch }>
  | Readonly<{ kind: 'close' }>;

/** Without `problem`: done. */
export type ThreadReply = Readonly<{
  n: number;
  problem?: Readonly<{ why: string; refused?: 'too-large' | 'unfit' }>;
}>;

const port = parentPort;
let link: Link | undefined;
let latest = 0;

const cut = (): void => {
  link?.close();
  link = undefined;
};

async function work(call: ThreadCall): Promise<void> {
  switch (call.kind) {
    case 'open': {
      cut();
      latest = call.n;
      const opened = await openKafkaLink(workerData as KafkaSettings);
      if (latest === call.n) link = opened;
      else opened.close();
      return;
    }
    case 'send':
      if (link === undefined) throw new Error('there is no connection');
      return link.send(unpackBatch(call.batch));
    case 'close':
      latest = 0;
      return cut();
  }
}

port?.on('message', (call: ThreadCall) => {
  const n = call.kind === 'close' ? 0 : call.n;
  work(call).then(
    () => port.postMessage({ n } satisfies ThreadReply),
    (error: unknown) => port.postMessage({ n, problem: problemOf(error) } satisfies ThreadReply),
  );
});

function problemOf(error: unknown): NonNullable<ThreadReply['problem']> {
  if (!(error instanceof RecordsRefused)) return { why: whyOf(error) };
  return { why: whyOf(error.cause), refused: error.tooLarge ? 'too-large' : 'unfit' };
}
