/**
 * undici's Pool alone: its index also loads fetch, WebSocket, caches and mocks, 8 MB resident in every worker
 * that nothing here uses. package.json holds its minor version, so the file stays where it is.
 */
import { createRequire } from 'node:module';
import type { Pool as PoolType } from 'undici';

/** An instance offers `dispatch`, `close` and `destroy`; the index would add `request` and its like. */
export type Pool = PoolType;

const load = createRequire(import.meta.url);
export const Pool = load('undici/lib/dispatcher/pool.js') as typeof PoolType;
