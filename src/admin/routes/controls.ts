/** What the gate runs with, and what can be changed while it runs: the config taken anew, the mode. */
import { Fault } from '../../core/errors.js';
import { ok, refused, type AdminAnswer, type AdminRoute } from '../route.js';

export const controls: AdminRoute = {
  method: 'GET',
  path: /^\/controls$/,
  answer: (state) => ok(state.controls()),
};

export const reload: AdminRoute = {
  method: 'POST',
  path: /^\/reload$/,
  answer: (state) =>
    carriedOut(async () => {
      await state.reload();
      return { status: 'reloaded' };
    }),
};

export const mode: AdminRoute = {
  method: 'POST',
  path: /^\/mode$/,
  answer(state, { body }) {
    const { mode: wanted, site } = (typeof body === 'object' && body !== null ? body : {}) as Record<
      string,
      unknown
    >;
    if (wanted !== 'enforce' && wanted !== 'observe') {
      return refused(400, 'send {"mode":"enforce"} or {"mode":"observe"}, and "site" for one site only');
    }
    if (site !== undefined && (typeof site !== 'string' || !state.sites().includes(site))) {
      return refused(404, `no such site; there is ${state.sites().join(', ')}`);
    }
    return carriedOut(async () => {
      await state.setMode(wanted, site);
      return { mode: wanted, site: site ?? 'all', until: 'the next reload' };
    });
  },
};

/** What `change` answers, or the Fault it stopped at. */
export async function carriedOut(change: () => Promise<unknown>): Promise<AdminAnswer> {
  try {
    return ok(await change());
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { code, message, remedy } = error;
    return { status: 422, type: 'json', body: { code, error: message, remedy } };
  }
}
