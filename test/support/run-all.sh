#!/usr/bin/env bash
# Runs every test and ends with `N passed, N failed, N skipped`; the exit code says whether all passed.
set -uo pipefail
cd "$(dirname "$0")/../.."

if ! command -v redis-server >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing redis-server"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server) >/dev/null 2>&1 ||
      echo "redis-server could not be installed; the tests that need it are skipped"
  else
    echo "redis-server is missing; the tests that need it are skipped"
  fi
fi
if ! command -v openssl >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openssl) >/dev/null 2>&1 ||
    echo "openssl could not be installed; tests of the TLS listener are skipped"
fi
if ! command -v nginx >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nginx libnginx-mod-stream) \
    >/dev/null 2>&1 || echo "nginx could not be installed; tests of the layer in front are skipped"
fi
if ! { command -v clang && command -v ethtool && test -e /usr/include/bpf/libbpf.h; } >/dev/null 2>&1 &&
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing what the XDP filter needs"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    clang libbpf-dev make iproute2 ethtool) >/dev/null 2>&1 ||
    echo "clang and libbpf-dev could not be installed; the tests of the XDP filter are skipped"
fi
make --no-print-directory -C bpf >/dev/null || echo "the XDP filter is not built; its tests are skipped"
bash test/support/kafka/fetch.sh
echo "Redis servers and Kafka brokers are started by the tests that need them"

mkdir -p .tap
results=.tap/results.tap
timeout --kill-after=20 "${TEST_SECONDS_MAX:-2400}" npx tap --reporter=tap "$@" 2>.tap/errors.log |
  tee "$results" | grep --line-buffered -E '^(ok|not ok) [0-9]+ - '
status=${PIPESTATUS[0]}
[ "$status" = 124 ] && echo "not ok 1 - the whole run ended within ${TEST_SECONDS_MAX:-2400} seconds" >>"$results"
[ -s .tap/errors.log ] && tail -20 .tap/errors.log
node test/support/summarize.mjs "$results"
summary=$?
[ "$status" = 0 ] && [ "$summary" = 0 ]
