/**
 * The loop over the stages. It alone knows early exit, deadlines, observe mode and what a broken stage means.
 * A request is judged in one pass over its head and, when it has a body, one or more passes over that;
 * what each stage found is kept by stage, so that score and steps always read in pipeline order.
 */
import type { Decision } from '../core/decision.js';
import { Fault } from '../core/errors.js';
import type { StageName, Step } from '../core/event.js';
import { NO_FINDINGS, type Finding } from '../core/finding.js';
import type { FieldReader } from '../core/identity.js';
import type { RequestFacts } from '../core/request.js';
import { decide } from '../decision/decide.js';
import type { DecisionConfig } from '../decision/config.js';
import type { PipelineConfig } from './config.js';
import { createDeadlines, type Deadlines } from './deadlines.js';
import type { BodyFacts, Stage } from './stage.js';

type MaybePromise<T> = T | Promise<T>;
type JudgingStage = keyof PipelineConfig['onFailure'];

export type PipelineSettings = Readonly<{
  pipeline: PipelineConfig;
  decision: DecisionConfig;
  /** Whether a site only observes. */
  observes: (site: string) => boolean;
  /** False: hosts of no site are served by the first one. */
  refuseUnknownHost: boolean;
  onFault: (fault: Fault) => void;
}>;

export type Run = {
  readonly facts: RequestFacts;
  /** By stage, in pipeline order. */
  readonly found: (readonly Finding[])[];
  readonly tookMs: number[];
  decisionMs: number;
  /** Name of the stage that ended the run early. */
  stoppedAt: StageName | undefined;
  decision: Decision | undefined;
  /** Reads the body's fields, once some of it was judged. */
  field: FieldReader | undefined;
};

export type Pipeline = Readonly<{
  open(facts: RequestFacts): Run;
  /** Judges the head. The decision stands in `run.decision` too. */
  head(run: Run): MaybePromise<Decision>;
  /** Judges what a body brought to light; may be called again as more of it arrives. */
  body(run: Run, body: BodyFacts): MaybePromise<Decision>;
}>;

export function createPipeline(stages: readonly Stage[], settings: PipelineSettings): Pipeline {
  const deadlines = createDeadlines(settings.pipeline.deadline);
  const count = stages.length;
  return {
    open: (facts) => ({
      facts,
      found: new Array<readonly Finding[]>(count).fill(NO_FINDINGS),
      tookMs: new Array<number>(count).fill(0),
      decisionMs: 0,
      stoppedAt: undefined,
      decision: undefined,
      field: undefined,
    }),
    head: (run) => pass({ stages, settings, deadlines, run, body: undefined }, 0),
    body: (run, body) => {
      run.field = body.field;
      return pass({ stages, settings, deadlines, run, body }, 0);
    },
  };
}

type Pass = Readonly<{
  stages: readonly Stage[];
  settings: PipelineSettings;
  deadlines: Deadlines;
  run: Run;
  body: BodyFacts | undefined;
}>;

/** Runs stages from `first` on; stays synchronous until a stage answers with a promise. */
function pass(context: Pass, first: number): MaybePromise<Decision> {
  const { stages, run } = context;
  let startedMs = performance.now();
  for (let index = first; index < stages.length; index++) {
    let answer: MaybePromise<readonly Finding[]>;
    try {
      answer = stages[index]!.judge(run.facts, context.body);
    } catch (error) {
      answer = broken(context, index, error);
    }
    if (answer instanceof Promise) return resume(context, { index, startedMs }, answer);
    // A stage ends where the next one begins: one look at the clock for both.
    const endedMs = performance.now();
    run.tookMs[index]! += endedMs - startedMs;
    startedMs = endedMs;
    if (settle(context, index, answer)) break;
  }
  return conclude(context, startedMs);
}

/** Goes on once the stage has answered or its deadline is over, whichever is first. */
function resume(
  context: Pass,
  from: Readonly<{ index: number; startedMs: number }>,
  answer: Promise<readonly Finding[]>,
): Promise<Decision> {
  const { settings, stages, deadlines, run } = context;
  const { index, startedMs } = from;
  return new Promise((resolve, reject) => {
    const go = (findings: readonly Finding[]): void => {
      try {
        const endedMs = performance.now();
        run.tookMs[index]! += endedMs - startedMs;
        resolve(settle(context, index, findings) ? conclude(context, endedMs) : pass(context, index + 1));
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    const deadline = deadlines.start(() => {
      const ms = settings.pipeline.deadline;
      go(broken(context, index, new Fault('STAGE_DEADLINE', { stage: stages[index]!.name, ms })));
    });
    answer.then(
      (findings) => {
        if (deadlines.stop(deadline)) go(findings);
      },
      (error: unknown) => {
        if (deadlines.stop(deadline)) go(broken(context, index, error));
      },
    );
  });
}

/** Books a stage's answer; true when the run ends here. */
function settle(context: Pass, index: number, findings: readonly Finding[]): boolean {
  if (findings.length === 0) return false;
  const { run, settings, stages } = context;
  const known = run.found[index]!;
  run.found[index] = known.length === 0 ? findings : merge(known, findings);
  if (settings.observes(run.facts.site)) return false;
  const allowed = run.found[0]!.some((finding) => finding.kind === 'allow');
  for (const finding of findings) {
    if (finding.observed === true) continue;
    if (finding.kind === 'malformed' || (finding.kind === 'deny' && !allowed)) {
      run.stoppedAt = stages[index]!.name;
      return true;
    }
  }
  return false;
}

function merge(known: readonly Finding[], more: readonly Finding[]): readonly Finding[] {
  const fresh = more.filter(
    (finding) => !known.some((other) => other === finding || other.id === finding.id),
  );
  return fresh.length === 0 ? known : [...known, ...fresh];
}

function conclude({ run, settings }: Pass, startedMs: number): Decision {
  const findings = allFindings(run);
  const observe = settings.observes(run.facts.site);
  let decision = decide(findings, scoreOf(findings), { config: settings.decision, observe });
  if (run.facts.unknownHost && settings.refuseUnknownHost && decision.status === 0) {
    decision = { action: 'block', status: 421, reason: 'no site takes this host', ruleIds: [] };
  }
  run.decisionMs += performance.now() - startedMs;
  run.decision = decision;
  return decision;
}

function broken({ stages, settings }: Pass, index: number, error: unknown): readonly Finding[] {
  const stage = stages[index]!.name as JudgingStage;
  const why = error instanceof Error ? error.message : String(error);
  const fault = error instanceof Fault ? error : new Fault('STAGE_FAILED', { stage, why }, error);
  settings.onFault(fault);
  const message = `stage ${stage} could not judge this request (${fault.code})`;
  if (settings.pipeline.onFailure[stage] === 'pass')
    return [{ id: 'STAGE-FAILED', kind: 'note', points: 0, message }];
  return [{ id: 'STAGE-FAILED', kind: 'malformed', points: 0, status: 503, message }];
}

function allFindings(run: Run): readonly Finding[] {
  let only: readonly Finding[] | undefined;
  for (const findings of run.found) {
    if (findings.length === 0) continue;
    if (only !== undefined) return run.found.flat();
    only = findings;
  }
  return only ?? NO_FINDINGS;
}

/** Sum of the points that count, capped at 100. */
export function scoreOf(findings: readonly Finding[]): number {
  let sum = 0;
  for (const finding of findings) if (finding.observed !== true) sum += finding.points;
  return sum > 100 ? 100 : sum;
}

/** The same over all stages of a run. */
export const scoreOfRun = (run: Run): number => scoreOf(allFindings(run));

/** The way through the stages, as the log and `tidegate explain` show it. */
export function stepsOf(run: Run, stages: readonly StageName[]): Step[] {
  let before = 0;
  let stopped = false;
  return stages.map((stage, index) => {
    const findings = run.found[index] ?? NO_FINDINGS;
    const after = findings.length === 0 ? before : Math.min(100, before + scoreOf(findings));
    const durationUs = Math.round((run.tookMs[index] ?? 0) * 1000);
    const step: Step = stopped
      ? {
          stage,
          before,
          after: before,
          durationUs: 0,
          findings: NO_FINDINGS,
          skipped: `stopped at ${run.stoppedAt}`,
        }
      : { stage, before, after, durationUs, findings };
    if (run.stoppedAt === stage) stopped = true;
    before = step.after;
    return step;
  });
}
