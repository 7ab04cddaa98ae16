/**
 * Takes a `100 Continue` that nobody asked for out of what an origin sends before its answer: it has to be
 * ignored (RFC 9110 section 15.2), and undici would end the connection over it.
 */
import type { Socket } from 'node:net';

const START = Buffer.from('HTTP/1.1 100');
const HEAD_BYTES_MAX = 4096;

type State = { awaits: boolean; held: Buffer | undefined };
const states = new WeakMap<Socket, State>();

/** A request goes out on this connection: what comes next on it is the head of its answer. */
export function awaitHead(socket: Socket): void {
  const known = states.get(socket);
  if (known !== undefined) {
    known.awaits = true;
    return;
  }
  const state: State = { awaits: true, held: undefined };
  states.set(socket, state);
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  socket.read = (size?: number): Buffer | null => {
    for (;;) {
      const chunk = read(size);
      if (!state.awaits || chunk === null) return chunk;
      const rest = withoutContinue(state, chunk);
      if (rest !== undefined) return rest;
    }
  };
}

/** Undefined where more has to be read first. */
function withoutContinue(state: State, chunk: Buffer): Buffer | undefined {
  let data = state.held === undefined ? chunk : Buffer.concat([state.held, chunk]);
  state.held = undefined;
  for (;;) {
    const known = Math.min(data.length, START.length);
    if (known === 0) return undefined;
    const isContinue = data.compare(START, 0, known, 0, known) === 0;
    const end = isContinue ? data.indexOf('\r\n\r\n') : -1;
    if (!isContinue || (end < 0 && data.length > HEAD_BYTES_MAX)) {
      state.awaits = false;
      return data;
    }
    if (end < 0) {
      state.held = data;
      return undefined;
    }
    data = data.subarray(end + 4);
  }
}
