/** Where a worker's program lies: beside this file, TypeScript in a source tree, JavaScript once built. */
import { fileURLToPath } from 'node:url';

const here = import.meta.url;
const entry = here.endsWith('.ts') ? './worker-entry.ts' : './worker-entry.js';

export const WORKER_SCRIPT = fileURLToPath(new URL(entry, here));
