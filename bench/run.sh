#!/usr/bin/env bash
# Runs every benchmark and prints Markdown tables; `make bench` keeps them in bench/RESULTS.md.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in wrk nginx taskset; do
  command -v "$tool" >/dev/null || { echo "bench needs $tool: apt-get install wrk nginx util-linux" >&2; exit 1; }
done
{
  echo "# Figures"
  echo
  echo "Made by \`make bench\` on $(date -u +%F): $(nproc) cores, Node $(node -v), $(nginx -v 2>&1 | sed 's/nginx version: //')."
  echo "The proxy alone on one core, load and origin on the other; medians of several rounds in turn. Take ratios."
  node dist/bench/throughput.js
  node dist/bench/stages.js
} | tee bench/RESULTS.tmp
mv bench/RESULTS.tmp bench/RESULTS.md
