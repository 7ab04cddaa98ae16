/**
 * From what detectors found to what the book of bans is asked: who is screened out, what the blast guard
 * holds back, what is too old, and what was asked a moment ago. Decides, and leaves the doing to `acts.ts`.
 */
import { subjectKey, type BanMode } from '../controls/ban.js';
import type { AuditEntry, BanAsk } from '../controls/ban-book-contract.js';
import type { Acts } from './acts.js';
import { namesOf, touchedBy, weighBlast, type Blast } from './blast.js';
import type { DetectorSettings } from './common.js';
import type { Detection, Suspect } from './detector.js';
import type { Touched } from './earlier.js';
import type { Weighed } from './good-sample.js';
import { createHeldNotes } from './held-notes.js';
import { createRecent } from './recent.js';
import type { Screen } from './screen.js';

/** Why a ban was not asked for. */
export const HELD = ['stale', 'blast', 'screen', 'rate'] as const;
export type Held = (typeof HELD)[number];

export type Note = Omit<AuditEntry, 'timeMs'>;

export type Found = Readonly<{
  detection: Detection;
  settings: DetectorSettings;
  good: readonly Weighed[];
  /** What bans within the window of the sample touched. */
  earlier: Acts['earlier'];
}>;

export type Proposals = Readonly<{
  asks: readonly BanAsk[];
  notes: readonly Note[];
  /** Good requests that a ban touches, by the key of its subject; nothing where it is missing. */
  touched: ReadonlyMap<string, Touched>;
}>;

export type ProposerOptions = Readonly<{
  staleMs: number;
  shareMax: number;
  suspectsMax: number;
  refuses: Screen['refuses'];
  nowMs: () => number;
}>;

export type Proposer = Readonly<{
  propose(found: Found): Proposals;
  /** Suspects that were held back, by why. */
  held(): Readonly<Record<Held, number>>;
}>;

const NOBODY: ReadonlyMap<string, Touched> = new Map();
const NOTHING: Proposals = { asks: [], notes: [], touched: NOBODY };
/** So many who are spared are told one by one. */
const TOLD_MAX = 3;
/** A subject is asked about again so often, since an operator may have lifted its ban meanwhile. */
const ASK_EVERY_MS = 30_000;
/** Asking again about the same one takes no room of the others. */
const GRANT_MS = 3_600_000;
const ASKED_MAX = 100_000;
const MINUTE_MS = 60_000;
const REQUEST_IDS_MAX = 5;

export function createProposer(options: ProposerOptions): Proposer {
  const { refuses, nowMs } = options;
  const noted = createHeldNotes();
  const asked = createRecent(ASK_EVERY_MS, ASKED_MAX);
  const granted = createRecent(GRANT_MS, ASKED_MAX);
  const held: Record<Held, number> = { stale: 0, blast: 0, screen: 0, rate: 0 };
  let minute = { number: 0, asks: 0 };

  /** False once this minute has seen as many bans as it may. */
  function hasRoom(): boolean {
    const number = Math.floor(nowMs() / MINUTE_MS);
    if (number !== minute.number) minute = { number, asks: 0 };
    return ++minute.asks <= options.suspectsMax;
  }

  function hold(why: Held, { detection, subject, text, count = 1, about = [] }: HoldBack): Note[] {
    const name = `${why} ${subject} ${detection.detector} ${detection.pattern}`;
    if (!noted.isDue(name, about, nowMs())) return [];
    held[why] += count;
    return [
      {
        what: 'held-back',
        subject,
        actor: actorOf(detection),
        reason: `${text}: ${detection.summary}`,
      },
    ];
  }

  function screened({ detection }: Found): { left: Suspect[]; notes: Note[] } {
    const notes: Note[] = [];
    const left = detection.suspects.filter(({ subject }) => {
      const why = refuses(subject);
      if (why !== undefined)
        notes.push(
          ...hold('screen', { detection, subject: subjectKey(subject), text: `not banned, ${why}` }),
        );
      return why === undefined;
    });
    return { left: left.sort((a, b) => b.evidence.count - a.evidence.count), notes };
  }

  function guarded(found: Found, suspects: readonly Suspect[]): Guarded {
    const { detection, good, earlier } = found;
    const own = new Set(namesOf(suspects));
    const touched = earlier((name) => own.has(name));
    const blast = weighBlast({ detection, suspects, good, earlier: touched, shareMax: options.shareMax });
    const { passed } = blast;
    const heldBack = passed.length === 0 ? suspects : blast.spared;
    const counted = new Map(passed.map((one) => [subjectKey(one.subject), touchedBy(blast, one)]));
    if (heldBack.length <= TOLD_MAX && passed.length > 0) {
      const text = tell(blast, 'the ban', options.shareMax);
      const notes = namesOf(heldBack).flatMap((subject) => hold('blast', { detection, subject, text }));
      return { passed, notes, touched: counted };
    }
    const notes = hold('blast', {
      detection,
      subject: detection.pattern,
      text: tell(blast, `${heldBack.length} bans`, options.shareMax),
      count: heldBack.length,
      about: namesOf(heldBack),
    });
    return { passed, notes, touched: counted };
  }

  return {
    held: () => ({ ...held }),
    propose(found) {
      const { detection, settings } = found;
      const mode = modeOf(detection, settings);
      if (mode === undefined || detection.suspects.length === 0) return NOTHING;
      if (detection.lastSeenMs < nowMs() - options.staleMs) {
        const text = `too old to act on, last seen ${new Date(detection.lastSeenMs).toISOString()}`;
        const about = namesOf(detection.suspects);
        const notes = hold('stale', {
          ...{ detection, subject: detection.pattern, text, about },
          count: about.length,
        });
        return { asks: [], notes, touched: NOBODY };
      }
      const { left, notes } = screened(found);
      const guard =
        mode === 'watch' || left.length === 0
          ? { passed: left, notes: [], touched: NOBODY }
          : guarded(found, left);
      const asks: BanAsk[] = [];
      for (const suspect of guard.passed) {
        const name = `${mode} ${subjectKey(suspect.subject)}`;
        if (!asked.isDue(name, nowMs())) continue;
        if (mode === 'watch' || !granted.isDue(name, nowMs()) || hasRoom()) {
          asks.push(askOf(detection, suspect, mode));
        } else {
          const text = `${options.suspectsMax} bans a minute are reached; asked again in the next`;
          asked.forget(name);
          granted.forget(name);
          notes.push(...hold('rate', { detection, subject: detection.pattern, text }));
        }
      }
      return { asks, notes: [...notes, ...guard.notes], touched: guard.touched };
    },
  };
}

type HoldBack = Readonly<{
  detection: Detection;
  subject: string;
  text: string;
  count?: number;
  /** All whom it is about, where `subject` is not one of them. */
  about?: readonly string[];
}>;

/** A detector that only observes raises no score either. */
function modeOf({ confidence }: Detection, { mode, banAt }: DetectorSettings): BanMode | undefined {
  if (mode === 'off') return undefined;
  if (confidence >= banAt) return mode;
  return mode === 'enforce' ? 'watch' : undefined;
}

const actorOf = ({ detector }: Detection): string => `detector:${detector}`;

type Guarded = Readonly<{
  passed: readonly Suspect[];
  notes: Note[];
  touched: ReadonlyMap<string, Touched>;
}>;

function tell({ share, earlierShare, sampled, touched }: Blast, what: string, shareMax: number): string {
  const percent = (part: number): string => `${Math.round(part * 1000) / 10} %`;
  return (
    `held back by the blast guard: this detection would touch ${percent(share)} of the good requests of the ` +
    `last 15 minutes (${touched} of ${sampled} sampled), earlier bans touched ${percent(earlierShare)}; ` +
    `with ${what} that is more than ${percent(shareMax)}`
  );
}

function askOf(detection: Detection, { subject, evidence }: Suspect, mode: BanMode): BanAsk {
  const { detector, pattern, summary, confidence } = detection;
  return {
    subject,
    mode,
    reason: summary,
    actor: actorOf(detection),
    evidence: {
      detector,
      pattern,
      summary,
      confidence,
      count: evidence.count,
      firstSeenMs: evidence.firstSeenMs,
      lastSeenMs: evidence.lastSeenMs,
      requestIds: evidence.requestIds.slice(0, REQUEST_IDS_MAX),
    },
  };
}
