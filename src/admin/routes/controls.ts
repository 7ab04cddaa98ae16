/** What the gate runs with, and the reload of its config. */
import { Fault } from '../../core/errors.js';
import type { AdminRoute } from '../route.js';

export const controls: AdminRoute = {
  method: 'GET',
  path: /^\/controls$/,
  answer: (state) => ({ status: 200, type: 'json', body: state.controls() }),
};

export const reload: AdminRoute = {
  method: 'POST',
  path: /^\/reload$/,
  async answer(state) {
    try {
      await state.reload();
      return { status: 200, type: 'json', body: { status: 'reloaded' } };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      return { status: 422, type: 'json', body: { code: error.code, error: error.message, remedy: error.remedy } };
    }
  },
};
