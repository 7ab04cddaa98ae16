#!/usr/bin/env node
/** Arguments → command → exit code; nothing else. */
import { run } from './cli/index.js';

process.exitCode = await run(process.argv);
