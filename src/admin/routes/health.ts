/** Alive, and ready for traffic. */
import type { AdminRoute } from '../route.js';

export const healthz: AdminRoute = {
  method: 'GET',
  path: /^\/healthz$/,
  answer: () => ({ status: 200, type: 'json', body: { status: 'ok' } }),
};

export const readyz: AdminRoute = {
  method: 'GET',
  path: /^\/readyz$/,
  answer(state) {
    const why = state.notReady();
    if (why === undefined) return { status: 200, type: 'json', body: { status: 'ready' } };
    return { status: 503, type: 'json', body: { status: 'not ready', reason: why } };
  },
};
