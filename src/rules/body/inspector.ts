/**
 * Opens the body of one request: holds structured bodies until they are whole, lets multipart and binary
 * bodies stream. What cannot be parsed is judged as raw text, never skipped.
 */
import type { Finding } from '../../core/finding.js';
import { NO_FINDINGS } from '../../core/finding.js';
import type { RequestFacts } from '../../core/request.js';
import type { BodyInspector } from '../engine.js';
import type { RuleBook } from '../judge.js';
import { createJudge } from '../judge.js';
import type { BodyKind } from './content-type.js';
import { readContentType, sniff, sniffBoundary } from './content-type.js';
import { malformed } from './malformed.js';
import { openBinary, openMultipart } from './streams.js';
import type { StreamBody } from './streams.js';
import { createFields, judgeWhole } from './whole.js';
import { runSteps } from './windows.js';

const PROBE_BYTES = 1024;
/** Smaller pieces are made into text together: a string each would cost more than what is in it. */
const TEXT_PIECE_BYTES = 4096;

export function openBody(book: RuleBook, facts: RequestFacts): BodyInspector {
  const { config } = book;
  const judge = createJudge(book, facts);
  const fields = createFields(config.maxFields);
  const type = readContentType(facts.headers.get('content-type'));
  let stream: StreamBody | undefined;
  let kinds: ReadonlySet<BodyKind> | undefined;
  let held: Buffer[] = [];
  // A settled body that is held, one character a byte: the work of turning it into text is spread over the
  // writes.
  let texts: string[] = [];
  let heldBytes = 0;
  /** In `held`, since the last text was made. */
  let smallHeld = 0;
  let refused = false;
  // The declared boundary, where the body begins otherwise: readable as text only, and only if it never
  // occurs.
  let stray: string | undefined;

  const refuse = (finding: Finding): readonly Finding[] => {
    if (refused) return NO_FINDINGS;
    refused = true;
    held = [];
    texts = [];
    return [finding, ...judge.flush()];
  };

  /** Decides once what the body is; answers a problem where it can be read in no one way. */
  const settle = (): Finding | undefined => {
    const first = Buffer.concat(held);
    held = [first];
    const seen = sniff(first);
    const found = new Set<BodyKind>([...type.kinds, ...seen]);
    if (type.charset !== undefined)
      return malformed('BODY-CHARSET', 415, `the charset ${type.charset} is not supported`);
    if (found.has('multipart')) {
      const boundary = type.multipart ? type.boundary : sniffBoundary(first);
      if (boundary === undefined)
        return malformed('MULTIPART-MALFORMED', 400, 'the multipart body has no usable boundary');
      if (!beginsWith(first, boundary)) {
        stray = boundary;
        kinds = new Set<BodyKind>(['text', ...seen]);
        return undefined;
      }
      stream = openMultipart(boundary, { book, judge, fields });
    } else if (seen.includes('binary') && !found.has('json') && !found.has('form') && !found.has('text')) {
      stream = openBinary({ book, judge, fields });
    }
    kinds = found;
    return undefined;
  };
  const holdText = (): void => {
    if (held.length > 0) texts.push((held.length === 1 ? held[0]! : Buffer.concat(held)).toString('latin1'));
    held = [];
    smallHeld = 0;
  };
  const flushHeld = (): ReturnType<BodyInspector['write']> => {
    const chunk = held.length === 1 ? (held[0] ?? Buffer.alloc(0)) : Buffer.concat(held);
    held = [];
    return stream === undefined ? NO_FINDINGS : runStream(stream.write(chunk));
  };
  const runStream = (steps: Iterator<void>): ReturnType<BodyInspector['write']> => {
    const found = runSteps(steps, judge, config.windowBytes);
    const finish = (findings: readonly Finding[]): readonly Finding[] => {
      const problem = stream?.problem();
      return problem === undefined ? findings : [...findings, ...refuse(problem)];
    };
    return found instanceof Promise ? found.then(finish) : finish(found);
  };

  return {
    get mode() {
      return stream === undefined ? 'whole' : 'stream';
    },
    write: (chunk) => {
      if (refused || chunk.length === 0) return NO_FINDINGS;
      if (stream !== undefined) return runStream(stream.write(chunk));
      held.push(chunk);
      heldBytes += chunk.length;
      if (kinds === undefined && heldBytes >= Math.min(PROBE_BYTES, facts.contentLength ?? PROBE_BYTES)) {
        const problem = settle();
        if (problem !== undefined) return refuse(problem);
      }
      if (stream !== undefined) return flushHeld();
      smallHeld += chunk.length;
      if (kinds !== undefined && smallHeld >= TEXT_PIECE_BYTES) holdText();
      if (heldBytes > config.wholeBytesMax)
        return refuse(malformed('BODY-TOO-LARGE', 413, 'the body is larger than can be inspected'));
      return NO_FINDINGS;
    },
    end: () => {
      if (refused || heldBytes === 0) return NO_FINDINGS;
      if (kinds === undefined) {
        const problem = settle();
        if (problem !== undefined) return refuse(problem);
      }
      if (stream !== undefined) return endStream(stream);
      const began = performance.now();
      holdText();
      const whole = texts.join('');
      texts = [];
      if (stray !== undefined && whole.includes(`--${stray}`)) {
        return refuse(malformed('MULTIPART-MALFORMED', 400, 'the body does not begin with its boundary'));
      }
      const work = judgeWhole(whole, kinds ?? new Set(), { book, judge, fields });
      const found = runSteps(work.steps, judge, config.windowBytes, began);
      const finish = (findings: readonly Finding[]): readonly Finding[] => {
        const problem = work.problem();
        return problem === undefined ? findings : [...findings, ...refuse(problem)];
      };
      return found instanceof Promise ? found.then(finish) : finish(found);
    },
    field: (name) => fields.get(name),
  };

  function endStream(body: StreamBody): ReturnType<BodyInspector['end']> {
    const before = held.length > 0 ? flushHeld() : NO_FINDINGS;
    const last = (): ReturnType<BodyInspector['end']> => (refused ? NO_FINDINGS : runStream(body.end()));
    const join = async (): Promise<readonly Finding[]> => [...(await before), ...(await last())];
    if (before instanceof Promise) return join();
    const after = last();
    return after instanceof Promise ? after.then((more) => [...before, ...more]) : [...before, ...after];
  }
}

function beginsWith(first: Buffer, boundary: string): boolean {
  const mark = Buffer.from(`--${boundary}`, 'latin1');
  const at = first.indexOf(mark);
  return at === 0 || (at === 2 && first[0] === 0x0d && first[1] === 0x0a);
}
