/**
 * The correlator: takes the events of its partitions, keeps a part of each detector for each, asks the
 * detectors every few seconds, and has the book of bans asked. State is saved before offsets are committed
 * and skips what it holds already: every event counts once whatever crashes, and bans are idempotent.
 */
import { inSlices } from '../core/pacer.js';
import type { Clock } from '../core/clock.js';
import { zeros } from '../core/counts.js';
import { REJECTS, type Delivered, type Reject, type Sink } from '../bus/bus-contract.js';
import type { BanBook } from '../controls/ban-book-contract.js';
import { createActs, type ActCounts, type Acts } from './acts.js';
import { claimsWithin } from './claims.js';
import type { CorrelatorConfig } from './config.js';
import type { DetectorName, Saved } from './detector.js';
import type { Listed } from './detectors/index.js';
import { createEvaluation, newest, type Evaluation, type EvaluationStats } from './evaluation.js';
import { createPartition, FATES, type Fate, type Partition, type PartitionDeps } from './partition.js';
import { createProposer, type Held, type Proposer } from './proposals.js';
import { createRecent } from './recent.js';
import type { Screen } from './screen.js';
import { createSaver, type Saver } from './saver.js';
import type { StateStore } from './state-contract.js';
import { createUnusedWatch } from './unused.js';

export type EngineStats = Readonly<{
  /** Events by what became of them. */
  fates: Readonly<Record<Fate, number>>;
  rejected: Readonly<Record<Reject, number>>;
  /** Messages whose partition was not open: none, unless the bus breaks its word. */
  unowned: number;
  detectors: readonly Readonly<{ name: DetectorName; entries: number; dropped: number; failures: number }>[];
  evaluation: EvaluationStats;
  held: Readonly<Record<Held, number>>;
  acts: ActCounts;
  saves: Saver['stats'] extends () => infer T ? T : never;
  leading: boolean;
  /** Event time of the newest; undefined before the first. */
  newestMs: number | undefined;
}>;

export type Engine = Sink &
  Readonly<{
    /** Evaluates by the wall clock from now on. */
    start(): void;
    /** Evaluates now, whoever leads. */
    evaluate(): Promise<void>;
    /** True while something that was found waits for the book. */
    isActing(): boolean;
    /** All that is kept of each partition, for an engine that takes over. */
    saved(): ReadonlyMap<number, Saved>;
    stats(): EngineStats;
    /** Ends the clock; settles nothing (the bus did, when it was closed). */
    close(): Promise<void>;
  }>;

export type Log = (
  level: 'info' | 'warn' | 'error',
  text: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

export type EngineDeps = Readonly<{
  config: CorrelatorConfig;
  listed: readonly Listed[];
  book: Pick<BanBook, 'ban' | 'note'>;
  screen: Screen;
  clock: Clock;
  log: Log;
  /** Absent: state ends with the process. */
  states?: StateStore;
  /** Without `states`: where a partition goes on from, such as the engine before a reload. */
  from?: ReadonlyMap<number, Saved>;
  /** True while this one evaluates for all; absent: always. */
  isLeading?: () => boolean;
}>;

/** Event time that passes without an evaluation at most, where events come faster than in real time. */
const SLICE_MS = 10_000;
const TROUBLE_EVERY_MS = 60_000;

export function createEngine(deps: EngineDeps): Engine {
  return new Correlator(deps);
}

class Correlator implements Engine {
  private readonly partitions = new Map<number, Partition>();
  private readonly partitionDeps: PartitionDeps;
  private readonly acts: Acts;
  private readonly proposer: Proposer;
  private readonly evaluation: Evaluation;
  private readonly saver: Saver;
  private readonly failures = new Map<DetectorName, number>();
  private readonly told = createRecent(TROUBLE_EVERY_MS, 1_000);
  private readonly fates = zeros(FATES);
  private readonly rejected = zeros(REJECTS);
  private readonly sliceMs: number;
  private unowned = 0;
  private taken = 0;
  private takenBefore = 0;
  private evaluatedToMs = -Infinity;
  private newestMs = -Infinity;
  private newestNode = '';
  /** What was told to be in trouble, and not yet to be well again. */
  private readonly troubled = new Set<string>();
  private readonly unused = createUnusedWatch({
    nowMs: () => this.deps.clock.nowMs(),
    warn: (text) => this.deps.log('warn', `correlator: ${text}`),
  });
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(private readonly deps: EngineDeps) {
    const { config, listed, clock, screen, book } = deps;
    const onTrouble = this.onTrouble;
    this.sliceMs = Math.max(config.evaluateEvery, SLICE_MS);
    this.partitionDeps = {
      detectors: listed.map(({ detector, settings }) => ({ detector, settings: JSON.stringify(settings) })),
      latenessMs: config.lateness,
      claimOf: screen.claimOf,
      onTrouble,
    };
    const nowMs = (): number => clock.nowMs();
    this.acts = createActs({
      book,
      isCrawler: (subject) =>
        screen.isCrawler(
          subject,
          claimsWithin(
            subject,
            this.all().map(({ claims }) => claims),
          ),
        ),
      nowMs,
      onFailure: (error) =>
        this.tell('book', 'the book of bans cannot be asked; what was found waits', error),
      onWell: () => this.isWell('book', 'the book of bans answers again'),
    });
    this.proposer = createProposer({
      staleMs: config.stale,
      shareMax: config.blast.share,
      suspectsMax: config.blast.maxSuspects,
      refuses: screen.refuses,
      nowMs,
    });
    this.evaluation = createEvaluation({ listed, proposer: this.proposer, acts: this.acts, onTrouble });
    this.saver = createSaver({
      states: deps.states,
      from: deps.from,
      open: (saved) => createPartition(this.partitionDeps, saved),
      onTrouble: (text) => this.tell('state', text),
    });
  }

  async open(partition: number): Promise<void> {
    this.partitions.set(partition, await this.saver.load(partition));
  }

  take({ partition, offset, content }: Delivered): void {
    const known = this.partitions.get(partition);
    if (known === undefined) {
      this.unowned++;
      return;
    }
    this.taken++;
    if (typeof content === 'string') {
      this.rejected[content]++;
      this.unused.rejected(content);
      known.skip(offset);
      return;
    }
    const fate = known.take(offset, content);
    this.fates[fate]++;
    if (fate === 'late') this.unused.late(content.node, this.newestNode);
    if (content.timeMs <= this.newestMs) return;
    this.newestNode = content.node;
    this.advance(known.maxTimeMs);
  }

  /** Whatever came faster than in real time is looked at before it leaves the windows. */
  private advance(toMs: number): void {
    this.newestMs = Math.max(this.newestMs, toMs);
    if (this.evaluatedToMs === -Infinity) this.evaluatedToMs = this.newestMs;
    if (this.newestMs - this.evaluatedToMs < this.sliceMs) return;
    this.evaluatedToMs = this.newestMs;
    const steps = this.evaluation.steps(this.all());
    while (steps.next().done !== true);
  }

  /** Own partitions and, where this one leads, those of the others. */
  private all(): Partition[] {
    const foreign = this.isLeading() ? this.saver.foreign() : [];
    return [...this.partitions.values(), ...foreign];
  }

  private isLeading(): boolean {
    return this.deps.isLeading?.() ?? true;
  }

  async settle(): Promise<ReadonlyMap<number, number>> {
    // What was found is in the book before the events behind it count as read.
    await this.acts.settled();
    return this.saver.save(this.partitions);
  }

  lost(partitions: readonly number[]): void {
    for (const partition of partitions) this.partitions.delete(partition);
  }

  start(): void {
    if (this.timer !== undefined || this.closed) return;
    this.timer = setTimeout(() => {
      this.onTimer().then(
        () => {
          this.isWell('evaluate', 'evaluations go on');
          this.again();
        },
        (error: unknown) => {
          this.tell('evaluate', 'an evaluation failed', error);
          this.again();
        },
      );
    }, this.deps.config.evaluateEvery).unref();
  }

  private again(): void {
    this.timer = undefined;
    this.start();
  }

  private async onTimer(): Promise<void> {
    if (!this.isLeading()) return;
    const moved = await this.saver.refresh([...this.partitions.keys()]);
    if (!moved && this.taken === this.takenBefore) return;
    await this.evaluate();
  }

  async evaluate(): Promise<void> {
    this.takenBefore = this.taken;
    this.evaluatedToMs = Math.max(this.evaluatedToMs, this.newestMs);
    await inSlices(this.evaluation.steps(this.all()));
  }

  isActing(): boolean {
    return this.acts.isWaiting();
  }

  saved(): ReadonlyMap<number, Saved> {
    return new Map([...this.partitions].map(([number, partition]) => [number, partition.save()]));
  }

  stats(): EngineStats {
    const parts = [...this.partitions.values()];
    return {
      fates: { ...this.fates },
      rejected: { ...this.rejected },
      unowned: this.unowned,
      detectors: this.deps.listed.map(({ detector: { name } }, at) => ({
        name,
        entries: parts.reduce((sum, partition) => sum + partition.parts[at]!.size(), 0),
        dropped: parts.reduce((sum, partition) => sum + partition.parts[at]!.dropped(), 0),
        failures: this.failures.get(name) ?? 0,
      })),
      evaluation: this.evaluation.stats(),
      held: this.proposer.held(),
      acts: this.acts.counts(),
      saves: this.saver.stats(),
      leading: this.isLeading(),
      newestMs: parts.length === 0 || newest(parts) === -Infinity ? undefined : newest(parts),
    };
  }

  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    this.acts.close();
  }

  private readonly onTrouble = (detector: DetectorName, error: unknown): void => {
    this.failures.set(detector, (this.failures.get(detector) ?? 0) + 1);
    this.tell(detector, `detector ${detector} failed; the others go on`, error);
  };

  private isWell(about: string, text: string): void {
    if (this.troubled.delete(about)) this.deps.log('info', `correlator: ${text}`);
  }

  private tell(about: string, text: string, error?: unknown): void {
    if (!this.told.isDue(about, this.deps.clock.nowMs())) return;
    this.troubled.add(about);
    const why = error instanceof Error ? error.message : String(error ?? '');
    this.deps.log('warn', `correlator: ${text}${why === '' ? '' : `: ${why}`}`);
  }
}
