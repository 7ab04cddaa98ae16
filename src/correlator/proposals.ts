/**
 * From what detectors found to what the book of bans is asked: who is screened out, what the blast guard
 * holds back, what is too old, and what was asked a moment ago. Decides, and leaves the doing to `acts.ts`.
 */
import { subjectKey, type BanMode } from '../controls/ban.js';
import type { AuditEntry, BanAsk } from '../controls/ban-book-contract.js';
import type { Matcher } from './blast.js';
import { weighBlast, type Blast } from './blast.js';
import type { DetectorSettings } from './common.js';
import type { Detection, Suspect } from './detector.js';
import type { Weighed } from './good-sample.js';
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
  /** Whom the correlator banned within the window of the sample. */
  recent: Matcher;
}>;

export type Proposals = Readonly<{ asks: readonly BanAsk[]; notes: readonly Note[] }>;

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

const NOTE_EVERY_MS = 3_600_000;
const NOTES_MAX = 10_000;
/** A subject is asked about again so often, since an operator may have lifted its ban meanwhile. */
const ASK_EVERY_MS = 30_000;
/** Asking again about the same one takes no room of the others. */
const GRANT_MS = 3_600_000;
const ASKED_MAX = 100_000;
const MINUTE_MS = 60_000;
const REQUEST_IDS_MAX = 5;

export function createProposer(options: ProposerOptions): Proposer {
  const { refuses, nowMs } = options;
  const noted = createRecent(NOTE_EVERY_MS, NOTES_MAX);
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

  function hold(why: Held, { detection, subject, text, count = 1 }: HoldBack): Note[] {
    if (!noted.isDue(`${why} ${subject} ${detection.detector} ${detection.pattern}`, nowMs())) return [];
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

  function guarded(
    found: Found,
    suspects: readonly Suspect[],
  ): { passed: readonly Suspect[]; notes: Note[] } {
    const { detection, good, recent } = found;
    const blast = weighBlast({ detection, suspects, good, recent, shareMax: options.shareMax });
    const heldBack = blast.passed.length === 0 ? suspects : blast.spared;
    if (heldBack.length === 0) return { passed: blast.passed, notes: [] };
    const whole = blast.passed.length === 0;
    const notes = (whole ? heldBack.slice(0, 1) : heldBack).flatMap(({ subject }) =>
      hold('blast', {
        detection,
        subject: whole ? detection.pattern : subjectKey(subject),
        text: tell(blast, whole ? `${suspects.length} bans` : 'the ban', options.shareMax),
        count: whole ? heldBack.length : 1,
      }),
    );
    return { passed: blast.passed, notes };
  }

  return {
    held: () => ({ ...held }),
    propose(found) {
      const { detection, settings } = found;
      const mode = modeOf(detection, settings);
      if (mode === undefined || detection.suspects.length === 0) return { asks: [], notes: [] };
      if (detection.lastSeenMs < nowMs() - options.staleMs) {
        const text = `too old to act on, last seen ${new Date(detection.lastSeenMs).toISOString()}`;
        const count = detection.suspects.length;
        return { asks: [], notes: hold('stale', { detection, subject: detection.pattern, text, count }) };
      }
      const { left, notes } = screened(found);
      const guard = mode === 'watch' ? { passed: left, notes: [] } : guarded(found, left);
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
      return { asks, notes: [...notes, ...guard.notes] };
    },
  };
}

type HoldBack = Readonly<{ detection: Detection; subject: string; text: string; count?: number }>;

/** A detector that only observes raises no score either. */
function modeOf({ confidence }: Detection, { mode, banAt }: DetectorSettings): BanMode | undefined {
  if (mode === 'off') return undefined;
  if (confidence >= banAt) return mode;
  return mode === 'enforce' ? 'watch' : undefined;
}

const actorOf = ({ detector }: Detection): string => `detector:${detector}`;

function tell({ share, sampled, touched }: Blast, what: string, shareMax: number): string {
  const percent = (part: number): string => `${Math.round(part * 1000) / 10} %`;
  return (
    `held back by the blast guard: with ${what}, ${percent(share)} of the good requests of the last ` +
    `15 minutes would be touched (${touched} of ${sampled} sampled), more than ${percent(shareMax)}`
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
