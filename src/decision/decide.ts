/**
 * From findings to one decision: pure. Order: what cannot be read, bans, a match that refuses by itself, a
 * match on a bad score, a limit, the ladder, then the longest wait that a shaping limit or the ladder asks
 * for. An allowlisted client is never banned, limited or held up by a limit; rules still hold for it.
 */
import type { Decision } from '../core/decision.js';
import type { Action } from '../core/event.js';
import { OBSERVED_ID, type Finding } from '../core/finding.js';
import type { DecisionConfig } from './config.js';

const PASS: Decision = Object.freeze({
  action: 'pass',
  status: 0,
  reason: 'nothing against it',
  ruleIds: [],
});

export function decide(
  findings: readonly Finding[],
  score: number,
  options: Readonly<{ config: DecisionConfig; observe: boolean }>,
): Decision {
  if (findings.length === 0 && options.config.ladder.length === 0) return PASS;
  const verdict = judge(sort(findings), score, options.config);
  if (!options.observe || verdict.action === 'pass') return verdict;
  const { action, reason, ruleIds, wouldChange } = verdict;
  return {
    action: 'observe',
    status: 0,
    reason: `observe mode: ${reason}`,
    ruleIds,
    wouldBe: action,
    ...also(wouldChange),
  };
}

/** A lone weak match is not enough where only the observed score lifts it to the threshold. */
const FIRM_SEVERITY = 3;

/**
 * What one visitor behind a shared address did must not turn every odd phrase of the others into an attack:
 * without the address' own record the score has to be there, or one match has to be firm.
 */
function matchesCount({ matches, counting }: Sorted, config: DecisionConfig): boolean {
  if (matches.length === 0) return false;
  if (matches.some(({ severity }) => (severity ?? 1) >= FIRM_SEVERITY)) return true;
  const record = counting.find(({ id }) => id === OBSERVED_ID)?.points ?? 0;
  if (record === 0) return true;
  return counting.reduce((sum, { points }) => sum + points, 0) - record >= config.blockScore;
}

type Sorted = Readonly<{
  counting: readonly Finding[];
  malformed: Finding | undefined;
  deny: Finding | undefined;
  limit: Finding | undefined;
  /** The one that makes the request wait longest. */
  delay: Finding | undefined;
  matches: readonly Finding[];
}>;

function sort(findings: readonly Finding[]): Sorted {
  const counting = findings.filter((finding) => finding.observed !== true);
  const allowed = counting.some((finding) => finding.kind === 'allow');
  const first = (kind: Finding['kind']) => counting.find((finding) => finding.kind === kind);
  return {
    counting,
    malformed: first('malformed'),
    deny: allowed ? undefined : first('deny'),
    limit: allowed ? undefined : strictest(counting.filter((finding) => finding.kind === 'limit')),
    delay: allowed ? undefined : longest(counting),
    matches: counting.filter((finding) => finding.kind === 'match'),
  };
}

function longest(findings: readonly Finding[]): Finding | undefined {
  let most: Finding | undefined;
  for (const finding of findings) if ((finding.delayMs ?? 0) > (most?.delayMs ?? 0)) most = finding;
  return most;
}

/** The limit a client has to wait for longest speaks for all. */
function strictest(limits: readonly Finding[]): Finding | undefined {
  return limits.reduce<Finding | undefined>(
    (worst, next) => ((next.limit?.retryAfterMs ?? 0) > (worst?.limit?.retryAfterMs ?? -1) ? next : worst),
    undefined,
  );
}

function judge(found: Sorted, score: number, config: DecisionConfig): Decision {
  const ruleIds = found.matches.map((finding) => finding.id);
  if (found.malformed !== undefined) {
    const { status = 400, message } = found.malformed;
    return { action: status === 503 ? 'error' : 'block', status, reason: message, ruleIds };
  }
  if (found.deny !== undefined)
    return block(found.deny.message, [], 'taking the address off the list would have passed it on');
  const severe = found.matches.find((finding) => (finding.severity ?? 1) >= config.blockSeverity);
  if (severe !== undefined) {
    const reason = `rule ${severe.id} (severity ${severe.severity}) matched: ${severe.message}`;
    return block(
      reason,
      ruleIds,
      `without ${listed(severeIds(found, config))} the score would decide: now ${score}`,
    );
  }
  if (score >= config.blockScore && matchesCount(found, config)) {
    const reason = `score ${score} is at or above ${config.blockScore} and ${listed(ruleIds)} matched`;
    return block(
      reason,
      ruleIds,
      `a score below ${config.blockScore} (now ${score}) or no rule match would have passed`,
    );
  }
  if (found.limit !== undefined) return limited(found.limit, ruleIds);
  return delayed(climb(score, { ruleIds, config }), found.delay);
}

/** A wait that a limit asks for; the longer one holds where the ladder asks for one too. */
function delayed(decision: Decision, finding: Finding | undefined): Decision {
  const { delayMs, limit } = finding ?? {};
  if (finding === undefined || delayMs === undefined) return decision;
  if (decision.status > 0 || delayMs <= (decision.delayMs ?? 0)) return decision;
  const about = limit?.policy ?? finding.id;
  return {
    ...decision,
    action: 'throttle',
    reason: finding.message,
    delayMs,
    wouldChange: `waiting ${delayMs} ms before sending it, or a wider limit in policy ${about}, would have passed it at once`,
    ...(limit && { limit: { ...limit, retryAfterMs: delayMs } }),
  };
}

function limited(finding: Finding, ruleIds: readonly string[]): Decision {
  const { limit } = finding;
  const waitS = Math.ceil((limit?.retryAfterMs ?? 0) / 1000);
  const wouldChange = `waiting ${waitS} s, or a wider limit in policy ${limit?.policy ?? finding.id}, would have passed`;
  return {
    action: 'limit',
    status: 429,
    reason: finding.message,
    ruleIds,
    wouldChange,
    ...(limit && { limit }),
  };
}

function climb(
  score: number,
  about: Readonly<{ ruleIds: readonly string[]; config: DecisionConfig }>,
): Decision {
  const { ruleIds, config } = about;
  const tier = [...config.ladder].sort((a, b) => b.atScore - a.atScore).find((each) => score >= each.atScore);
  if (tier !== undefined) {
    const reason = `score ${score} reached the ladder's ${tier.rung} at ${tier.atScore}`;
    const wouldChange = `a score below ${tier.atScore} (now ${score}) would have passed`;
    if (tier.rung === 'refuse') return { ...block(reason, ruleIds, wouldChange) };
    return { action: 'throttle', status: 0, reason, ruleIds, delayMs: tier.delay, wouldChange };
  }
  if (ruleIds.length === 0)
    return score === 0 ? PASS : { ...PASS, reason: `score ${score}, no rule matched` };
  const wouldChange = `a score of ${config.blockScore} (now ${score}) would have refused it`;
  return {
    ...PASS,
    reason: `${listed(ruleIds)} matched, score ${score} is below ${config.blockScore}`,
    ruleIds,
    wouldChange,
  };
}

function block(reason: string, ruleIds: readonly string[], wouldChange: string): Decision {
  const action: Action = 'block';
  return { action, status: 403, reason, ruleIds, wouldChange };
}

const also = (wouldChange: string | undefined) => (wouldChange === undefined ? {} : { wouldChange });
const severeIds = (found: Sorted, config: DecisionConfig): string[] =>
  found.matches
    .filter((finding) => (finding.severity ?? 1) >= config.blockSeverity)
    .map((finding) => finding.id);
const listed = (ids: readonly string[]): string => ids.join(' and ');
