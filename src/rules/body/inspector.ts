/**
 * Opens the body of one request: holds structured bodies until they are whole, lets multipart and binary
 * bodies stream. What cannot be parsed is judged as raw text, never skipped; what it looks like is read
 * beside what it is said to be, never instead.
 */
import type { Finding } from '../../core/finding.js';
import { NO_FINDINGS } from '../../core/finding.js';
import type { RequestFacts } from '../../core/request.js';
import type { BodyInspector, BodyWatch, MaybePromise } from '../engine.js';
import type { RuleBook } from '../judge.js';
import { createJudge } from '../judge.js';
import { malformed } from '../malformed.js';
import type { BodyKind } from './content-type.js';
import { readContentType, sniff, sniffBoundary } from './content-type.js';
import { createRawText } from './raw-text.js';
import { openBinary, openCoded, openMultipart } from './streams.js';
import type { StreamBody } from './streams.js';
import { foreignEncoding, isMostlyWide, narrow, wideEncoding } from './wide.js';
import type { WideEncoding } from './wide.js';
import { createFields, judgeWhole } from './whole.js';
import { runSteps } from './windows.js';

const PROBE_BYTES = 1024;
/** Smaller pieces are made into text together: a string each would cost more than what is in it. */
const TEXT_PIECE_BYTES = 4096;

type Findings = MaybePromise<readonly Finding[]>;

/** How a held body is read once it is whole. */
type Plan = {
  kinds: Set<BodyKind>;
  boundary: string | undefined;
  wide: WideEncoding | undefined;
  /** The declared boundary, where the body begins otherwise: readable only if it never occurs. */
  stray: string | undefined;
};

export function openBody(book: RuleBook, facts: RequestFacts, watch?: BodyWatch): BodyInspector {
  const { config } = book;
  const judge = createJudge(book, facts);
  const fields = createFields(config.maxFields);
  const work = { book, judge, fields };
  const stepsOf = { judge, pieceChars: config.windowBytes, watch };
  const raw = createRawText(judge, config);
  let coded: StreamBody | undefined;
  let opened: StreamBody | Plan | undefined;
  let held: Buffer[] = [];
  // A settled body that is held, one character a byte: the work of turning it into text is spread over the
  // writes.
  let texts: string[] = [];
  let heldBytes = 0;
  /** In `held`, since the last text was made. */
  let smallHeld = 0;
  let refused = false;

  const refuse = (finding: Finding): readonly Finding[] => {
    if (refused) return NO_FINDINGS;
    refused = true;
    held = [];
    texts = [];
    return [finding, ...judge.flush()];
  };
  const run = (steps: Iterator<void>, problem: () => Finding | undefined, began?: number): Findings =>
    then(runSteps(steps, stepsOf, began), (findings) => {
      const found = problem();
      return found === undefined ? findings : [...findings, ...refuse(found)];
    });
  const settle = (): readonly Finding[] => {
    const first = Buffer.concat(held);
    held = [first];
    const plan = planOf(facts.headers.get('content-type'), first);
    if ('id' in plan) return refuse(plan);
    if (!('open' in plan)) opened = plan;
    else opened = plan.open === 'binary' ? openBinary(plan.packed, work) : openMultipart(plan, work);
    return NO_FINDINGS;
  };
  const goOn = (last = false): Findings => {
    if (opened === undefined) return NO_FINDINGS;
    if (!('write' in opened) && !last && smallHeld < TEXT_PIECE_BYTES) return tooLarge();
    const bytes = held.length === 1 ? held[0]! : Buffer.concat(held);
    held = [];
    smallHeld = 0;
    if ('write' in opened) return run(opened.write(bytes), opened.problem);
    const text = bytes.toString('latin1');
    texts.push(text);
    const problems = tooLarge();
    return problems.length > 0 || !isRaw(opened) ? problems : run(raw.write(text), none);
  };
  const tooLarge = (): readonly Finding[] =>
    heldBytes > config.wholeBytesMax
      ? refuse(malformed('BODY-TOO-LARGE', 413, 'the body is larger than can be inspected'))
      : NO_FINDINGS;
  const endWhole = (plan: Plan): Findings => {
    const began = performance.now();
    const text = texts.join('');
    texts = [];
    if (plan.stray !== undefined && text.includes(`--${plan.stray}`))
      return refuse(malformed('MULTIPART-MALFORMED', 400, 'the body does not begin with its boundary'));
    const { kinds, boundary } = plan;
    const body = { text, kinds, boundary, rest: isRaw(plan) ? raw.rest() : undefined };
    const first = judgeWhole(body, work);
    if (plan.wide === undefined) return run(first.steps, first.problem, began);
    const plain = narrow(text, plan.wide);
    const also = new Set([...kinds, ...sniff(Buffer.from(plain.slice(0, PROBE_BYTES), 'latin1'))]);
    const second = judgeWhole({ text: plain, kinds: also, boundary: undefined, rest: undefined }, work);
    return run(
      inTurn(second.steps, first.steps),
      () => first.problem() ?? second.problem(),
      began,
    );
  };

  return {
    get mode() {
      return opened !== undefined && 'write' in opened ? 'stream' : 'whole';
    },
    write: (chunk) => {
      if (refused || chunk.length === 0) return NO_FINDINGS;
      held.push(chunk);
      heldBytes += chunk.length;
      smallHeld += chunk.length;
      judge.grant(chunk.length);
      if (opened === undefined) {
        if (heldBytes < Math.min(PROBE_BYTES, facts.contentLength ?? PROBE_BYTES)) return NO_FINDINGS;
        const problems = settle();
        if (problems.length > 0) return problems;
      }
      return goOn();
    },
    raw: (chunk) => {
      coded ??= openCoded(work);
      return refused ? NO_FINDINGS : run(coded.write(chunk), none);
    },
    end: () => {
      const codedEnd = coded === undefined || refused ? NO_FINDINGS : run(coded.end(), none);
      return inOrder(codedEnd, () => {
        if (refused || heldBytes === 0) return NO_FINDINGS;
        const problems = opened === undefined ? settle() : NO_FINDINGS;
        if (problems.length > 0) return problems;
        const before = held.length > 0 ? goOn(true) : NO_FINDINGS;
        return inOrder(before, () => {
          if (refused || opened === undefined) return NO_FINDINGS;
          return 'write' in opened ? run(opened.end(), opened.problem) : endWhole(opened);
        });
      });
    },
    field: (name) => fields.get(name),
  };
}

type Streamed =
  | Readonly<{ open: 'binary'; packed: boolean }>
  | Readonly<{ open: 'multipart'; boundary: string; formData: boolean }>;

/** Decides once what the body is; a problem where it can be read in no one way. */
function planOf(header: string | undefined, first: Buffer): Plan | Streamed | Finding {
  const type = readContentType(header);
  const seen = sniff(first);
  if (type.charset !== undefined)
    return malformed('BODY-CHARSET', 415, `the charset ${type.charset} is not supported`);
  if (type.multipart && type.boundary === undefined)
    return malformed('MULTIPART-MALFORMED', 400, 'the multipart body has no usable boundary');
  if (type.boundary !== undefined && type.kinds.size === 1) {
    const { boundary, formData } = type;
    if (beginsWith(first, boundary)) return { open: 'multipart', boundary, formData };
    const kinds = new Set<BodyKind>(['text', ...seen]);
    return { kinds, boundary: sniffBoundary(first), wide: undefined, stray: boundary };
  }
  const kinds = new Set<BodyKind>([...type.kinds, ...seen]);
  const textual = type.kinds.has('json') || type.kinds.has('form') || type.kinds.has('text');
  const wide = type.kinds.has('binary') ? undefined : wideEncoding(first);
  const foreign = type.kinds.has('binary') ? undefined : foreignEncoding(first);
  if (foreign !== undefined)
    return malformed('BODY-CHARSET', 415, `the encoding ${foreign.slice(0, 40)} is not supported`);
  const isWide = wide !== undefined && (textual || isMostlyWide(first.subarray(0, PROBE_BYTES), wide));
  if (seen.includes('binary') && !textual && !isWide) return { open: 'binary', packed: type.packed };
  // Read as a form too where only the looks say multipart.
  if (seen.includes('multipart')) kinds.add('form');
  const boundary = type.boundary ?? (seen.includes('multipart') ? sniffBoundary(first) : undefined);
  return { kinds, boundary, wide: isWide ? wide : undefined, stray: undefined };
}

/** True where the whole is judged as raw text in any case, so that this need not wait for its end. */
function isRaw({ kinds, boundary }: Plan): boolean {
  return kinds.has('text') || boundary !== undefined || !(kinds.has('json') || kinds.has('form'));
}

function none(): undefined {
  return undefined;
}

function* inTurn(...all: readonly Iterator<void>[]): Generator<void> {
  for (const steps of all) while (steps.next().done !== true) yield;
}

function then(
  findings: Findings,
  finish: (findings: readonly Finding[]) => readonly Finding[],
): Findings {
  return findings instanceof Promise ? findings.then(finish) : finish(findings);
}

function inOrder(before: Findings, next: () => Findings): Findings {
  if (before instanceof Promise) return before.then(async (found) => [...found, ...(await next())]);
  if (before.length === 0) return next();
  return then(next(), (found) => [...before, ...found]);
}

function beginsWith(first: Buffer, boundary: string): boolean {
  const mark = Buffer.from(`--${boundary}`, 'latin1');
  const at = first.indexOf(mark);
  return at === 0 || (at === 2 && first[0] === 0x0d && first[1] === 0x0a);
}
