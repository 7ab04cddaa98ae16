#!/usr/bin/env bash
# Runs every benchmark and puts its tables into bench/RESULTS.md, each into its own part; what is written around
# the parts stays, and so does the attacks part unless CORPUS names the labelled requests to measure with.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in wrk nginx taskset redis-server; do
  command -v "$tool" >/dev/null || { echo "bench needs $tool: apt-get install wrk nginx util-linux redis-server" >&2; exit 1; }
done
made="on $(date -u +%F): $(nproc) cores, Node $(node -v), $(nginx -v 2>&1 | sed 's/nginx version: //')"
keep() { tee /dev/stderr | node dist/bench/results.js "$1"; }
{
  echo "Made by \`make bench\` $made."
  echo "The proxy alone on one core, load and origin on the other; medians of several rounds in turn. Take ratios."
  node dist/bench/throughput.js
  node dist/bench/stages.js
} | keep speed
node dist/bench/memory.js | keep memory
# SERIES: recorded requests a minute (`minute,count`, gzip), beside the random schedules.
node dist/bench/limits-error.js ${SERIES:+"$SERIES"} | keep limits-error
node dist/bench/limits-redis.js | keep limits-redis
node dist/bench/correlator.js | keep correlator
# The kernel's part needs root, clang and libbpf; without them it keeps the figures it has.
if make -s -C bpf all flood && kernel=$(node dist/bench/xdp.js); then
  printf 'Made by `node dist/bench/xdp.js` %s.\n%s\n' "$made" "$kernel" | keep xdp
fi
if [ -n "${CORPUS:-}" ]; then
  { echo "Measured $made:"; echo; node dist/test/attacks/measure.js "$CORPUS" | sed 's/^/    /'; } | keep attacks
fi
