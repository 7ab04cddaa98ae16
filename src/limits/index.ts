/** What the roles build the limits engine from. */
export type { CounterStore } from './limiter-contract.js';
export { createLimiter, createStandInStore, type LimiterDeps } from './limiter.js';
export { memoryStore, type MemoryStore, type MemoryStoreStats } from './stores/memory.js';
export { ipcStore, serveStore, type IpcStore, type IpcStoreStats } from './stores/ipc.js';
export { hotKeyCache, type HotKeyCache, type HotKeyCacheStats } from './stores/hot-key-cache.js';
export { redisStore, type RedisStore, type RedisStoreStats } from './stores/redis.js';
export { createInspector, type LimitRow, type LimitsInspector, type LimitsOf } from './inspect.js';
export { limitsSection, type LimitsConfig } from './config.js';
