/** Bans as operators see and make them, for the admin listener. Each change leaves a line in the log. */
import type { AdminState, Asker, BanOrder } from '../admin/route.js';
import type { Config } from '../config/schema.js';
import { subjectKey, type Ban, type Subject } from '../controls/ban.js';
import { networkContains, parseNetwork } from '../core/address.js';
import { systemClock } from '../core/clock.js';
import { describeFault, Fault } from '../core/errors.js';
import { parseDuration } from '../core/schema.js';
import { createIdentities } from '../identity/index.js';
import { createUntouchable } from '../reputation/untouchable.js';
import type { BanDesk } from './ban-desk.js';
import { checkForm, refuseHarm, targetOf, type Target } from './ban-target.js';
import type { Log } from './engines.js';

export type BansViewDeps = Readonly<{
  config: () => Config;
  desk: Pick<BanDesk, 'book' | 'inForce'>;
  hashKey: () => string;
  note: Log;
}>;

const SHOWN_MAX = 2_000;
const AUDIT_SHOWN = 500;
const LASTS_MIN_MS = 1_000;
const LASTS_MAX_MS = 3650 * 86_400_000;

export function bansView(deps: BansViewDeps): Pick<AdminState, 'bans' | 'banAudit' | 'ban' | 'unban'> {
  const { config, desk, note } = deps;
  const identities = () => createIdentities(config().identity, deps.hashKey());
  const log = (text: string, by: Asker, { subject, reason, until }: Noted): void =>
    note('warn', text, { audit: `bans.${text.split(' ', 1)[0]}`, ...by, subject, reason, until });
  return {
    async bans() {
      const { bans, notes } = await inForce(desk);
      const latest = [...bans].sort((a, b) => b.sinceMs - a.sinceMs).slice(0, SHOWN_MAX);
      return { total: bans.length, bans: latest, notes };
    },
    banAudit: () => desk.book.audit(AUDIT_SHOWN),
    async ban(order, asker) {
      const target = targetOf(order, config(), identities);
      const { subject } = target;
      const notes = [...target.notes, ...checkForm(subject)];
      const durationMs = durationOf(order.for);
      await refuseIfHarmful(target, order, deps);
      const mode = order.observe ? 'observe' : 'enforce';
      const { reason } = order;
      const ask = { subject, mode, reason, actor: nameOf(asker), durationMs } as const;
      const [outcome] = await desk.book.ban([ask]);
      const { result, ban } = outcome ?? {};
      if (ban === undefined)
        throw new Fault('BAN_REFUSED', { why: 'there is no room for more bans', remedy: 'raise bans.most' });
      const until = new Date(ban.untilMs).toISOString();
      log('banned by an operator', asker, { subject: subjectKey(subject), reason, until });
      return { ban, replaced: result === 'replaced', notes };
    },
    async unban(given, { actor, peer, reason }) {
      const { subject } = targetOf(given, config(), identities);
      const by = { actor: nameOf({ actor, peer }), reason };
      let lifted = await desk.book.unban(subject, by);
      const { bans } = lifted === undefined ? await inForce(desk) : { bans: [] };
      // Somebody banned it in the very moment in which it was not.
      if (bans.some((ban) => subjectKey(ban.subject) === subjectKey(subject)))
        lifted = await desk.book.unban(subject, by);
      if (lifted === undefined) {
        const remedy = hintFor(subject, bans);
        throw new Fault('UNBAN_NOTHING', { subject: subjectKey(subject), remedy });
      }
      const until = new Date(lifted.untilMs).toISOString();
      log('unbanned by an operator', { actor, peer }, { subject: subjectKey(subject), reason, until });
      return lifted;
    },
  };
}

const nameOf = ({ actor, peer }: Asker): string => `${actor} (${peer})`;

type Noted = Readonly<{ subject: string; reason: string; until: string }>;

/** Of the book; where that is away, what this gate obeys. */
async function inForce(desk: BansViewDeps['desk']): Promise<{ bans: readonly Ban[]; notes: string[] }> {
  try {
    return { bans: (await desk.book.read()).bans, notes: [] };
  } catch (error) {
    const [what = ''] = describeFault(error).split('\n', 1);
    return { bans: desk.inForce(), notes: [`the book cannot be read (${what}); this is what the gate obeys`] };
  }
}

function durationOf(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms < LASTS_MIN_MS || ms > LASTS_MAX_MS)
    throw new Fault('BAN_REFUSED', {
      why: `found ${JSON.stringify(text.slice(0, 40))} as its length`,
      remedy: 'give a duration from 1s to 3650d, such as 15m, 1h or 7d',
    });
  return ms;
}

/** The allowlist is read for each ask, as its file is now. */
async function refuseIfHarmful(
  { network }: Target,
  { force }: BanOrder,
  { config, note }: BansViewDeps,
): Promise<void> {
  if (network === undefined) return;
  const { reputation, baseDir } = config();
  const untouchable = createUntouchable(reputation, { baseDir, clock: systemClock, log: note });
  try {
    await untouchable.start();
    refuseHarm(network, { untouchable, widest: reputation.widest, force });
  } finally {
    await untouchable.close();
  }
}

function hintFor({ kind, value }: Subject, bans: readonly Ban[]): string {
  const network = kind === 'network' ? parseNetwork(value) : undefined;
  const holder = bans.find(({ subject }) => {
    const other = subject.kind === 'network' && network ? parseNetwork(subject.value) : undefined;
    return subject.value !== value && other !== undefined && networkContains(other, network!);
  });
  if (holder === undefined) return '`tidegate bans` shows what is banned';
  return `it lies in ${holder.subject.value}, which is banned: lift that, or put ${value} on the allowlist`;
}
