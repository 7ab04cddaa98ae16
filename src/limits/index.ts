/** What the roles build the limits engine from. */
export type { CounterStore } from './limiter-contract.js';
export { createLimiter, createStandInStore } from './limiter.js';
export { memoryStore, type MemoryStore } from './stores/memory.js';
export { ipcStore, serveStore } from './stores/ipc.js';
export { hotKeyCache } from './stores/hot-key-cache.js';
export { redisStore } from './stores/redis.js';
export { createInspector, type LimitRow, type LimitsInspector, type LimitsOf } from './inspect.js';
export { limitsSection } from './config.js';
