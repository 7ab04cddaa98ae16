/** What the roles build the limits engine from. */
export { createLimiter, type LimiterDeps } from './limiter.js';
export { memoryStore, type MemoryStore, type MemoryStoreStats } from './stores/memory.js';
export { ipcStore, serveStore, type IpcStore, type IpcStoreStats } from './stores/ipc.js';
export { limitsSection, type LimitsConfig } from './config.js';
