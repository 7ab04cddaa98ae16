/** The shape of an admin resource: what it answers to, whether it changes state, and its answer. */
import type { DecisionEvent } from '../core/event.js';

export type AdminState = Readonly<{
  /** Undefined when ready, else why not. */
  notReady(): string | undefined;
  metrics(): Promise<string>;
  decisions(): readonly DecisionEvent[];
  controls(): Readonly<Record<string, unknown>>;
  /** Rejects with a Fault; the running config stays. */
  reload(): Promise<void>;
}>;

export type AdminAnswer = Readonly<{ status: number; type: 'json' | 'text'; body: unknown }>;

export type AdminRoute = Readonly<{
  method: 'GET' | 'POST';
  /** One capture group at most: handed to `answer`. */
  path: RegExp;
  answer(state: AdminState, part: string): AdminAnswer | Promise<AdminAnswer>;
}>;
