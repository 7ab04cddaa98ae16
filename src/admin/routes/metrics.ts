/** Prometheus text, summed over workers. */
import type { AdminRoute } from '../route.js';

export const metrics: AdminRoute = {
  method: 'GET',
  path: /^\/metrics$/,
  answer: async (state) => ({ status: 200, type: 'text', body: await state.metrics() }),
};
