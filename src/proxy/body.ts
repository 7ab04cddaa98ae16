/**
 * Reads a request body, decodes it for inspection and holds it back until it was judged. Structured bodies
 * are held whole; files and binaries up to `judgedWhole`, then each piece goes on once it was inspected, and
 * a late refusal destroys the request to the origin unfinished. A body that is held must keep coming.
 */
import type { IncomingMessage } from 'node:http';
import type { Decision } from '../core/decision.js';
import type { Finding } from '../core/finding.js';
import type { Pipeline, Run } from '../pipeline/run.js';
import type { BodyInspector, BodyWatch } from '../rules/engine.js';
import type { ProxyConfig } from './config.js';
import { decodeCaps, openDecoder, type Decoder, type DecodeProblem } from './decode.js';
import { HeldChunks } from './held-chunks.js';
import type { Full, Holding } from './holding.js';
import { createTurns } from './turns.js';

export type BodyOutcome =
  /** Judged whole: forward these bytes. */
  | Readonly<{ kind: 'whole'; body: Buffer }>
  /** Judged so far: forward what was held, then call `follow`. */
  | Readonly<{ kind: 'stream'; held: readonly Buffer[]; follow: (sink: BodySink) => void }>
  | Readonly<{ kind: 'refuse'; decision: Decision }>
  /** The client left, or fell silent (status 408). */
  | Readonly<{ kind: 'gone'; status: 0 | 408 }>;

export type BodySink = {
  /** False: wait for `resume`. */
  push(chunk: Buffer): boolean;
  end(): void;
  refuse(decision: Decision): void;
  gone(): void;
  onDrain(resume: () => void): void;
};

export type BodyDeps = Readonly<{
  pipeline: Pipeline;
  config: Pick<ProxyConfig, 'body' | 'timeouts'>;
  /** Counts what is held; whoever owns the request releases it at its end at the latest. */
  holding: Holding;
  /** Counts body bytes as they arrive. */
  onBytes: (count: number) => void;
}>;

export function readBody(request: IncomingMessage, work: BodyWork, deps: BodyDeps): BodyReading {
  const reader = new BodyReader(request, work, deps);
  reader.start();
  return reader;
}

export type BodyWork = Readonly<{
  run: Run;
  inspect: (watch: BodyWatch) => BodyInspector;
  settle: (outcome: BodyOutcome) => void;
}>;

/** `abandon`: the client is gone, wherever the reading stands (inside the decoder or the rules too). */
export type BodyReading = Readonly<{ abandon: () => void }>;

type Refused = Readonly<{ id: string; status: 503 | 400; problem: string }>;

const FULL: Readonly<Record<Full, Refused>> = {
  total: { id: 'HELD-FULL', status: 503, problem: 'too many bodies are held at once' },
  address: {
    id: 'HELD-ADDRESS',
    status: 503,
    problem: 'too many bytes of bodies from one address are held at once',
  },
};

class BodyReader implements BodyReading {
  private readonly chunks = new HeldChunks();
  private readonly startedMs = performance.now();
  private windowMs = this.startedMs;
  private windowBytes = 0;
  private heldHere = 0;
  /** Work on chunks in their order, one at a time. */
  private readonly turns = createTurns((error) => {
    this.finish(this.refusal({ id: 'BODY-FAILED', status: 400, problem: (error as Error).message }));
  });
  private decoder: Decoder | undefined;
  private sink: BodySink | undefined;
  private over = false;
  private findings: readonly Finding[] = [];
  private timer: NodeJS.Timeout | undefined;
  private pending = 0;
  private identified = false;

  private readonly inspector: BodyInspector;

  constructor(
    private readonly request: IncomingMessage,
    private readonly work: BodyWork,
    private readonly deps: BodyDeps,
  ) {
    this.inspector = work.inspect({
      gone: () => this.over,
      // What refuses by itself ends the work.
      found: async (findings) => {
        await this.weigh(findings);
        return !this.over;
      },
    });
  }

  start(): void {
    const coding = this.work.run.facts.headers.get('content-encoding');
    const opened = openDecoder(coding, decodeCaps(this.deps.config));
    if (opened !== undefined && 'problem' in opened) return this.finish(this.refusal(opened));
    this.decoder = opened;
    this.deps.holding.begin((full) => this.finish(this.refusal(FULL[full])));
    this.arm();
    this.request.on('data', this.onData);
    this.request.on('end', this.onEnd);
    this.request.on('close', this.onClose);
    this.request.on('error', this.onClose);
  }

  private readonly onData = (chunk: Buffer): void => {
    this.arm();
    this.deps.onBytes(chunk.length);
    if (this.over || this.isSlow(chunk.length)) return;
    this.pending++;
    this.turns.add(() => this.take(chunk));
    if (this.pending > 4) this.request.pause();
  };

  private readonly onEnd = (): void => {
    clearTimeout(this.timer);
    this.turns.add(() => this.takeEnd());
  };

  private readonly onClose = (): void => {
    clearTimeout(this.timer);
    if (this.over || this.request.complete) return;
    this.giveUp(0);
  };

  readonly abandon = (): void => {
    if (!this.over) this.giveUp(0);
  };

  /** A held body that only trickles in, or takes too long in all, ends here. */
  private isSlow(bytes: number): boolean {
    if (this.sink !== undefined) return false;
    const { body, timeouts } = this.deps.config;
    const nowMs = performance.now();
    this.windowBytes += bytes;
    const ms = nowMs - this.windowMs;
    const tooLong = nowMs - this.startedMs > timeouts.bodyHeld;
    if (!tooLong && ms < timeouts.body) return false;
    if (tooLong || this.windowBytes < (body.minRate * ms) / 1000) {
      this.giveUp(408);
      return true;
    }
    this.windowMs = nowMs;
    this.windowBytes = 0;
    return false;
  }

  private arm(): void {
    if (this.timer === undefined) {
      this.timer = setTimeout(() => this.giveUp(408), this.deps.config.timeouts.body);
      this.timer.unref();
    } else this.timer.refresh();
  }

  private take(chunk: Buffer): void | Promise<void> {
    if (this.over) return;
    if (this.decoder !== undefined) return this.takeCoded(this.decoder, chunk);
    const inspected = this.inspect(this.inspector.write(chunk));
    return inspected === undefined ? this.taken(chunk) : inspected.then(() => this.taken(chunk));
  }

  private async takeCoded(decoder: Decoder, chunk: Buffer): Promise<void> {
    await this.inspect(this.inspector.raw(chunk));
    if (this.over) return;
    const plain = await decoder.write(chunk);
    if (this.over) return;
    if ('problem' in plain) return this.finish(this.refusal(plain));
    if (plain.length > 0) await this.inspect(this.inspector.write(plain));
    await this.taken(chunk);
  }

  private taken(chunk: Buffer): void | Promise<void> {
    this.pending--;
    if (this.over) return;
    const { sink } = this;
    if (sink !== undefined) return this.follow(sink.push(chunk));
    const held = this.hold(chunk);
    if (held instanceof Promise) return held;
    if (held) this.follow(true);
  }

  /** A sink that is full says by `onDrain` when it takes more. */
  private follow(more: boolean): void {
    if (!more) this.request.pause();
    else if (this.request.isPaused()) this.request.resume();
  }

  private takeEnd(): void | Promise<void> {
    if (this.over) return;
    if (this.decoder !== undefined) return this.takeCodedEnd(this.decoder);
    const inspected = this.inspect(this.inspector.end());
    return inspected === undefined
      ? this.judgeEnd()
      : inspected.then(() => (this.over ? undefined : this.judgeEnd()));
  }

  private async takeCodedEnd(decoder: Decoder): Promise<void> {
    const rest = await decoder.end();
    if (this.over) return;
    if ('problem' in rest) return this.finish(this.refusal(rest));
    if (rest.length > 0) await this.inspect(this.inspector.write(rest));
    await this.inspect(this.inspector.end());
    if (!this.over) await this.judgeEnd();
  }

  private judgeEnd(): void | Promise<void> {
    const decision = this.identify();
    return decision instanceof Promise
      ? decision.then((late) => this.decided(late))
      : this.decided(decision);
  }

  private decided(decision: Decision): void {
    if (decision.status > 0) return this.finish({ kind: 'refuse', decision });
    if (this.sink !== undefined) return this.finishStream((sink) => sink.end());
    this.finish({ kind: 'whole', body: this.chunks.takeWhole() });
  }

  /** A promise only where the inspector, or judging what it found, needs one. */
  private inspect(brought: readonly Finding[] | Promise<readonly Finding[]>): undefined | Promise<void> {
    if (!(brought instanceof Promise) && brought.length === 0) return undefined;
    return this.weigh(brought);
  }

  private async weigh(brought: readonly Finding[] | Promise<readonly Finding[]>): Promise<void> {
    const findings = await brought;
    if (findings.length === 0 || this.over) return;
    this.findings = findings;
    const decision = await this.judge(false);
    this.findings = [];
    if (this.over) return;
    // A limit alone does not end the reading: the body decides between 429 and 403.
    if (decision.status > 0 && decision.action !== 'limit') this.finish({ kind: 'refuse', decision });
  }

  private judge(identified: boolean): Decision | Promise<Decision> {
    const { inspector } = this;
    const { run } = this.work;
    const { findings } = this;
    return this.deps.pipeline.body(run, { findings, field: (name) => inspector.field(name), identified });
  }

  /** Counts the body's identities, once: at its end, or before the first of it goes on. */
  private identify(): Decision | Promise<Decision> {
    const first = !this.identified;
    this.identified = true;
    return this.judge(first);
  }

  /** Keeps a chunk back; false where reading must not go on. */
  private hold(chunk: Buffer): boolean | Promise<void> {
    const { body } = this.deps.config;
    const { inspector } = this;
    this.chunks.add(chunk);
    this.heldHere += chunk.length;
    const full = this.deps.holding.add(chunk.length, body);
    if (full !== undefined) {
      this.finish(this.refusal(FULL[full]));
      return false;
    }
    if (inspector.mode === 'whole') {
      if (this.heldHere <= body.structured) return true;
      const problem = 'a structured body is larger than `body.structured`';
      this.finish(this.refusal({ id: 'BODY-TOO-LARGE', status: 413, problem }));
      return false;
    }
    if (this.heldHere <= body.judgedWhole) return true;
    return this.goStreaming();
  }

  private async goStreaming(): Promise<void> {
    const decision = await this.identify();
    if (this.over) return;
    if (decision.status > 0) return this.finish({ kind: 'refuse', decision });
    const held = this.chunks.take();
    this.deps.holding.release();
    this.request.pause();
    this.work.settle({
      kind: 'stream',
      held,
      follow: (sink) => {
        this.sink = sink;
        sink.onDrain(() => this.request.resume());
        this.request.resume();
      },
    });
  }

  private finish(outcome: BodyOutcome): void {
    if (this.over) return;
    if (this.sink !== undefined && outcome.kind === 'refuse') {
      return this.finishStream((sink) => sink.refuse(outcome.decision));
    }
    this.release();
    // A body that goes on stays in memory, and counted, until its request ends.
    if (outcome.kind === 'whole') this.deps.holding.settle();
    else this.deps.holding.release();
    this.work.settle(outcome);
  }

  private finishStream(act: (sink: BodySink) => void): void {
    const { sink } = this;
    if (this.over || sink === undefined) return;
    this.release();
    act(sink);
  }

  private giveUp(status: 0 | 408): void {
    if (this.sink !== undefined) return this.finishStream((sink) => sink.gone());
    this.finish({ kind: 'gone', status });
  }

  private release(): void {
    this.over = true;
    clearTimeout(this.timer);
    this.decoder?.close();
    this.chunks.take();
    this.request.off('data', this.onData);
    this.request.off('end', this.onEnd);
  }

  private refusal(problem: DecodeProblem | Refused): BodyOutcome {
    const finding: Finding = {
      id: problem.id,
      kind: 'malformed',
      points: 0,
      status: problem.status,
      message: problem.problem,
    };
    const { run } = this.work;
    run.found[run.found.length - 1] = [...(run.found[run.found.length - 1] ?? []), finding];
    const decision: Decision = {
      // Whoever is cut for want of room has done nothing wrong.
      action: problem.status === 503 ? 'error' : 'block',
      status: problem.status,
      reason: problem.problem,
      ruleIds: [],
    };
    run.decision = decision;
    return { kind: 'refuse', decision };
  }
}
