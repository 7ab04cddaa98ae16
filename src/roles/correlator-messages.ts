/** What the supervisor and the thread of its correlator tell each other. */
import type { ObservationBatch } from '../cluster/observations.js';
import type { Config } from '../config/schema.js';
import type { BanAsk, BanOutcome } from '../controls/ban-book-contract.js';
import type { Note } from '../correlator/proposals.js';
import type { CorrelatorView } from './correlator.js';

export type ToThread =
  | Readonly<{ kind: 'observations'; batch: ObservationBatch }>
  | Readonly<{ kind: 'config'; config: Config }>
  /** To the ask with this number; `problem` where the book could not be asked. */
  | Readonly<{ kind: 'answer'; id: number; outcomes: readonly BanOutcome[]; problem?: string }>
  | Readonly<{ kind: 'close' }>;

export type FromThread =
  /** So many observations have left the line. */
  | Readonly<{ kind: 'took'; count: number }>
  | Readonly<{ kind: 'ban'; id: number; asks: readonly BanAsk[] }>
  | Readonly<{ kind: 'note'; id: number; note: Note }>
  | Readonly<{
      kind: 'log';
      level: 'info' | 'warn' | 'error';
      text: string;
      fields?: Readonly<Record<string, unknown>> | undefined;
    }>
  | Readonly<{ kind: 'view'; view: CorrelatorView | undefined }>;
