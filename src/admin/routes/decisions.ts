/** The latest decisions that did not simply pass: all of them, or one by its request id. */
import { ok, refused, type AdminRoute } from '../route.js';

export const decisions: AdminRoute = {
  method: 'GET',
  path: /^\/decisions$/,
  answer: (state) => ok({ decisions: state.decisions() }),
};

export const decision: AdminRoute = {
  method: 'GET',
  path: /^\/decisions\/([\w-]{1,64})$/,
  answer(state, { part }) {
    const found = state.decisions().find((event) => event.requestId === part);
    return found === undefined ? refused(404, 'no such decision is kept here; look into the log') : ok(found);
  },
};
