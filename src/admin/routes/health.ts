/** Alive, and ready for traffic. */
import { ok, type AdminRoute } from '../route.js';

export const healthz: AdminRoute = {
  method: 'GET',
  path: /^\/healthz$/,
  answer: () => ok({ status: 'ok' }),
};

export const readyz: AdminRoute = {
  method: 'GET',
  path: /^\/readyz$/,
  answer(state) {
    const why = state.notReady();
    const feeds = state.feeds();
    if (why === undefined) return ok({ status: 'ready', limits: state.limitStore(), feeds });
    return { status: 503, type: 'json', body: { status: 'not ready', reason: why, feeds } };
  },
};
