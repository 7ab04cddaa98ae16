/** Where the supervisor's forks begin. */
import cluster from 'node:cluster';
import { runWorker } from './worker.js';

runWorker(cluster.worker?.id ?? 0);
