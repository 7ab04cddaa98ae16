/** Recorded decisions of a file or a topic through the detectors of a config, dry: nothing is written. */
import type { Reject } from '../bus/bus-contract.js';
import { decodeText } from '../bus/decode.js';
import type { Config } from '../config/schema.js';
import { createMemoryBook } from '../controls/memory-book.js';
import { systemClock } from '../core/clock.js';
import type { Observation } from '../core/observation.js';
import { cleanText } from '../core/text.js';
import { createDetectors } from '../correlator/detectors/index.js';
import { createReplay, type Replay, type ReplayReport } from '../correlator/replay.js';
import { createScreen } from '../correlator/screen.js';
import { createPlaces } from '../reputation/places.js';
import { createUntouchable } from '../reputation/untouchable.js';
import type { Log } from './engines.js';
import { linesOf } from './replay-lines.js';

/** A line that holds no usable event. */
export type Poison = Readonly<{ line: number; cause: Reject; text: string }>;

export type Replayed = ReplayReport &
  Readonly<{
    source: string;
    lines: number;
    /** Operational lines of the log, which are no events. */
    notes: number;
    /** Events before `fromMs` or from `toMs` on. */
    outside: number;
    /** Why the source was not read to its end, and how far it was; absent where it was. */
    cut?: string;
    /** The first few. */
    poison: readonly Poison[];
  }>;

export type ReplayAsk = Readonly<{
  config: Config;
  /** Path of a log, `.gz` or not; `-`: standard input. */
  source: string;
  fromMs?: number | undefined;
  toMs?: number | undefined;
  log: Log;
}>;

const POISON_MAX = 10;
const SHOWN = 80;
const NOTE = /^\{(?:.*,)?"level":"(?:info|warn|error)",.*"msg":/;

/** Throws Faults REPLAY_UNREADABLE. */
export async function replayFile(ask: ReplayAsk): Promise<Replayed> {
  const { source } = ask;
  let cut: string | undefined;
  const replayed = await replayFrom(ask, async (reader) => {
    const lines = linesOf(source, (why) => (cut = why));
    for await (const text of lines) await reader.line(text, text === 'too-large');
  });
  return cut === undefined ? replayed : { ...replayed, cut };
}

export type Reader = Readonly<{
  line(text: string, isLong?: boolean): Promise<void>;
  /** What a topic held, at its place. */
  message(content: Observation | Reject, at: Readonly<{ partition: number; offset: number }>): Promise<void>;
}>;

/** `read` hands everything to the reader, in order. */
export async function replayFrom(ask: ReplayAsk, read: (reader: Reader) => Promise<void>): Promise<Replayed> {
  const { config, source, log } = ask;
  const { reputation, correlator, bans, baseDir } = config;
  const untouchable = createUntouchable(reputation, { baseDir, clock: systemClock, log });
  const places = createPlaces(reputation, { baseDir, clock: systemClock, log });
  await Promise.all([untouchable.start(), places.start()]);
  try {
    const { isAllowed, isOwn } = untouchable;
    const replay = createReplay({
      config: correlator,
      listed: createDetectors(correlator.detectors, places),
      screen: createScreen({ isAllowed, isOwn, widest: reputation.widest }),
      log,
      openBook: (clock) => createMemoryBook({ clock, rules: () => bans }),
    });
    const reading = createReading(ask, replay);
    await read(reading.reader);
    return { source, ...reading.counts(), ...(await replay.finish()) };
  } finally {
    await Promise.all([untouchable.close(), places.close()]);
  }
}

function createReading({ fromMs = -Infinity, toMs = Infinity }: ReplayAsk, replay: Replay) {
  const tally = { lines: 0, notes: 0, outside: 0 };
  const poison: Poison[] = [];
  const nowMs = systemClock.nowMs();
  const remember = (cause: Reject, text: string): void => {
    if (poison.length < POISON_MAX) poison.push({ line: tally.lines, cause, text: cleanText(text, SHOWN) });
  };
  const reader: Reader = {
    async line(text, isLong = false) {
      tally.lines++;
      if (text.trim() === '') return;
      const content = isLong ? 'too-large' : decodeText(text, nowMs);
      if (typeof content === 'string') {
        if (NOTE.test(text)) {
          tally.notes++;
          return;
        }
        remember(content, isLong ? '' : text);
      }
      await give(content, { partition: 0, offset: tally.lines });
    },
    async message(content, at) {
      tally.lines++;
      if (typeof content === 'string') remember(content, `partition ${at.partition}, offset ${at.offset}`);
      await give(content, at);
    },
  };
  async function give(
    content: Observation | Reject,
    at: { partition: number; offset: number },
  ): Promise<void> {
    if (typeof content !== 'string' && (content.timeMs < fromMs || content.timeMs >= toMs)) {
      tally.outside++;
      return;
    }
    const done = replay.take({ ...at, content });
    if (done !== undefined) await done;
  }
  return { reader, counts: () => ({ ...tally, poison }) };
}
