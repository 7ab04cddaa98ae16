/** The latest decisions that did not simply pass: all of them, or one by its request id. */
import type { AdminRoute } from '../route.js';

export const decisions: AdminRoute = {
  method: 'GET',
  path: /^\/decisions$/,
  answer: (state) => ({ status: 200, type: 'json', body: { decisions: state.decisions() } }),
};

export const decision: AdminRoute = {
  method: 'GET',
  path: /^\/decisions\/([\w-]{1,64})$/,
  answer(state, part) {
    const found = state.decisions().find((event) => event.requestId === part);
    if (found !== undefined) return { status: 200, type: 'json', body: found };
    return { status: 404, type: 'json', body: { error: 'no such decision is kept here; look into the log' } };
  },
};
